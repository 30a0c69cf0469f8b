// Directory listings that show what a disk would: steps that are there to be read, those that the task itself has written,
// and no stale file of such a name.
#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "disk.hpp"
#include "match.hpp"
#include "posix_names.hpp"

namespace wilkins::posix {
namespace {

struct Entry {
    std::string name;
    uint64_t identity;
};

// A directory that the program reads.
struct Listing {
    DIR* directory = nullptr;
    std::string path;            // normalised, "" for the working directory
    std::vector<Entry> entries;  // steps to add
    size_t next = 0;
    struct dirent shown = {};
    Listing* older = nullptr;
};

std::mutex mutex;
Listing* listings = nullptr;

std::string normalised(const char* path) {
    char clean[PATH_MAX];
    return normalise(path, clean, sizeof(clean)) ? clean : path;
}

std::string absolute(const std::string& path) {
    char folder[PATH_MAX];
    if ((!path.empty() && path[0] == '/') || !getcwd(folder, sizeof(folder))) return path;
    return path.empty() ? folder : std::string(folder) + "/" + path;
}

bool same_folder(const std::string& a, const std::string& b) {
    if (a == b) return true;
    const bool a_whole = !a.empty() && a[0] == '/', b_whole = !b.empty() && b[0] == '/';
    return a_whole != b_whole && normalised(absolute(a).c_str()) == normalised(absolute(b).c_str());
}

std::string join(const std::string& folder, const char* name) {
    return folder.empty() ? name : folder == "/" ? "/" + std::string(name) : folder + "/" + name;
}

void collect(const char* name, uint64_t identity, void* user) {
    static_cast<std::vector<Entry>*>(user)->push_back({name, identity});
}

std::vector<Entry> steps_in(const std::string& folder) {
    std::vector<Entry> steps, entries;
    list_steps(collect, &steps);
    for (const Entry& step : steps) {
        const size_t slash = step.name.rfind('/');
        const std::string parent = slash == std::string::npos ? "" : slash == 0 ? "/" : step.name.substr(0, slash);
        const std::string base = slash == std::string::npos ? step.name : step.name.substr(slash + 1);
        if (!same_folder(parent, folder) || base.size() >= sizeof(dirent::d_name)) continue;
        bool known = false;
        for (const Entry& entry : entries) known = known || entry.name == base;
        if (!known) entries.push_back({base, step.identity});
    }
    return entries;
}

// Without memory for it, the directory is listed as it is on disk.
void follow(DIR* directory, const char* path) noexcept try {
    const int saved = errno;
    auto listing = std::make_unique<Listing>();
    listing->directory = directory;
    listing->path = normalised(path);
    listing->entries = steps_in(listing->path);
    std::lock_guard<std::mutex> lock(mutex);
    listing->older = listings;
    listings = listing.release();
    errno = saved;
} catch (const std::bad_alloc&) {
}

Listing* find_listing(DIR* directory) {
    if (!listings) return nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    Listing* listing = listings;
    while (listing && listing->directory != directory) listing = listing->older;
    return listing;
}

void drop_listing(DIR* directory) {
    if (!listings) return;
    std::lock_guard<std::mutex> lock(mutex);
    for (Listing** at = &listings; *at; at = &(*at)->older) {
        if ((*at)->directory != directory) continue;
        Listing* gone = *at;
        *at = gone->older;
        delete gone;
        return;
    }
}

bool is_directory(const std::string& name, unsigned char type) {
    return type == DT_UNKNOWN || type == DT_LNK ? disk::is_directory(name.c_str()) : type == DT_DIR;
}

// A file on disk that has the name of a port's is not what an open would lead to, and one of ours that is being written is none
// of the program's business.
bool hidden(const Listing& listing, const struct dirent& entry) {
    Match match;
    if (strncmp(entry.d_name, disk::kHidden, strlen(disk::kHidden)) == 0) return true;
    const std::string name = join(listing.path, entry.d_name);
    return match_name(name.c_str(), &match) && !on_disk(match) && !is_directory(name, entry.d_type);
}

void fill(const Entry& step, struct dirent* entry) {
    entry->d_ino = step.identity;
    entry->d_type = DT_REG;
    entry->d_reclen = sizeof(*entry);
    memcpy(entry->d_name, step.name.c_str(), step.name.size() + 1);
}

struct dirent* next_entry(DIR* directory) {
    Listing* listing = find_listing(directory);
    for (;;) {
        const int saved = errno;
        struct dirent* entry = libc::readdir(directory);
        if (!listing || (!entry && errno != saved)) return entry;
        if (entry && !hidden(*listing, *entry)) return entry;
        if (entry) continue;
        if (listing->next == listing->entries.size()) return nullptr;
        fill(listing->entries[listing->next++], &listing->shown);
        return &listing->shown;
    }
}

struct dirent* make_entry(const Entry& step) {
    auto* entry = static_cast<struct dirent*>(calloc(1, sizeof(struct dirent)));
    if (entry) fill(step, entry);
    return entry;
}

// The C library's scandir does not come through readdir: its result is corrected. Returns the number of entries.
int correct(const char* path, struct dirent*** list, int count, int (*filter)(const struct dirent*),
            int (*compare)(const struct dirent**, const struct dirent**)) noexcept try {
    Listing listing;
    listing.path = normalised(path);
    size_t kept = 0;
    for (int i = 0; i < count; ++i) {
        if (hidden(listing, *(*list)[i])) free((*list)[i]);
        else (*list)[kept++] = (*list)[i];
    }
    for (const Entry& step : steps_in(listing.path)) {
        struct dirent* entry = make_entry(step);
        auto** longer = static_cast<struct dirent**>(realloc(*list, sizeof(**list) * (kept + 1)));
        if (longer) *list = longer;
        if (!entry || !longer || (filter && !filter(entry))) free(entry);
        else (*list)[kept++] = entry;
    }
    if (compare) qsort(*list, kept, sizeof(**list), reinterpret_cast<int (*)(const void*, const void*)>(compare));
    return static_cast<int>(kept);
} catch (const std::bad_alloc&) {
    return count;
}

}  // namespace
}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(DIR*, opendir, const char* path) {
    DIR* directory = libc::opendir(path);
    if (directory && in_run(WILKINS_CALLER)) follow(directory, path);
    return directory;
}

WILKINS_INTERPOSE(DIR*, fdopendir, int fd) {
    DIR* directory = libc::fdopendir(fd);
    if (!directory || !in_run(WILKINS_CALLER)) return directory;
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length <= 0) return directory;
    path[length] = 0;
    follow(directory, path);
    return directory;
}

WILKINS_INTERPOSE(struct dirent*, readdir, DIR* directory) { return next_entry(directory); }
WILKINS_ALIAS(readdir64, readdir);

WILKINS_INTERPOSE(void, rewinddir, DIR* directory) {
    libc::rewinddir(directory);
    if (Listing* listing = find_listing(directory)) {
        listing->entries = steps_in(listing->path);
        listing->next = 0;
    }
}

WILKINS_INTERPOSE(int, closedir, DIR* directory) {
    drop_listing(directory);
    return libc::closedir(directory);
}

WILKINS_INTERPOSE(int, scandir, const char* path, struct dirent*** list, int (*filter)(const struct dirent*),
                  int (*compare)(const struct dirent**, const struct dirent**)) {
    const int count = libc::scandir(path, list, filter, compare);
    return count >= 0 && in_run(WILKINS_CALLER) ? correct(path, list, count, filter, compare) : count;
}
WILKINS_ALIAS(scandir64, scandir);
