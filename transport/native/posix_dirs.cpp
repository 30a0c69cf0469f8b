// Directory listings that show what a disk would: steps that are there to be read, those that the task itself has written,
// and no stale file of such a name.
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
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

// Opens a directory of this path by `open(given)`. All that can fail for want of memory comes before.
template <class Open, class Given>
DIR* open_listed(const char* path, const Open& open, Given given) {
    const int before = errno;
    auto listing = std::make_unique<Listing>();
    listing->path = normalised(path);
    listing->entries = steps_in(listing->path);
    errno = before;
    DIR* const directory = open(given);
    if (!directory) return nullptr;
    listing->directory = directory;
    std::lock_guard<std::mutex> lock(mutex);
    listing->older = listings;
    listings = listing.release();
    return directory;
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

// The result of scandir, in memory that its program frees; freed here if the program's own functions leave it by an exception,
// or if there is no memory to correct it.
class Scanned {
public:
    Scanned(struct dirent** entries, int count) : entries_(entries), count_(static_cast<size_t>(count)) {}
    ~Scanned() {
        for (size_t i = 0; i < count_; ++i) free(entries_[i]);
        free(entries_);
    }
    Scanned(const Scanned&) = delete;
    Scanned& operator=(const Scanned&) = delete;

    void leave_out(const Listing& listing) {
        for (size_t i = 0; i < count_; ++i)
            if (hidden(listing, *entries_[i])) free(std::exchange(entries_[i], nullptr));
        count_ = static_cast<size_t>(std::remove(entries_, entries_ + count_, nullptr) - entries_);
    }
    void add(const Entry& step, int (*filter)(const struct dirent*)) {
        struct dirent entry = {};
        fill(step, &entry);
        if (filter && !filter(&entry)) return;
        auto** longer = static_cast<struct dirent**>(realloc(entries_, sizeof(*entries_) * (count_ + 1)));
        if (!longer) throw std::bad_alloc();
        entries_ = longer;
        entries_[count_] = static_cast<struct dirent*>(malloc(sizeof(entry)));
        if (!entries_[count_]) throw std::bad_alloc();
        *entries_[count_++] = entry;
    }
    int sort_and_give(int (*compare)(const struct dirent**, const struct dirent**), struct dirent*** list) {
        if (compare) qsort(entries_, count_, sizeof(*entries_), reinterpret_cast<int (*)(const void*, const void*)>(compare));
        *list = std::exchange(entries_, nullptr);
        return static_cast<int>(std::exchange(count_, 0));
    }

private:
    struct dirent** entries_;
    size_t count_;
};

// The C library's scandir does not come through readdir: its result is corrected. Returns the number of entries.
int correct(const char* path, struct dirent*** list, int count, int (*filter)(const struct dirent*),
            int (*compare)(const struct dirent**, const struct dirent**)) {
    Scanned scanned(*list, count);
    Listing listing;
    listing.path = normalised(path);
    scanned.leave_out(listing);
    for (const Entry& step : steps_in(listing.path)) scanned.add(step, filter);
    return scanned.sort_and_give(compare, list);
}

}  // namespace
}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(DIR*, opendir, const char* path) {
    return in_run(WILKINS_CALLER) ? open_listed(path, libc::opendir, path) : libc::opendir(path);
} WILKINS_OR(nullptr)

WILKINS_INTERPOSE(DIR*, fdopendir, int fd) {
    if (!in_run(WILKINS_CALLER)) return libc::fdopendir(fd);
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length <= 0) return libc::fdopendir(fd);
    path[length] = 0;
    return open_listed(path, libc::fdopendir, fd);
} WILKINS_OR(nullptr)

WILKINS_INTERPOSE(struct dirent*, readdir, DIR* directory) { return next_entry(directory); } WILKINS_OR(nullptr)
WILKINS_ALIAS(readdir64, readdir);

WILKINS_INTERPOSE(void, rewinddir, DIR* directory) {
    libc::rewinddir(directory);
    if (Listing* listing = find_listing(directory)) {
        listing->next = 0;
        listing->entries = steps_in(listing->path);
    }
} WILKINS_OR()

WILKINS_INTERPOSE(int, closedir, DIR* directory) {
    drop_listing(directory);
    return libc::closedir(directory);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, scandir, const char* path, struct dirent*** list, int (*filter)(const struct dirent*),
                  int (*compare)(const struct dirent**, const struct dirent**)) {
    const int count = libc::scandir(path, list, filter, compare);
    return count >= 0 && in_run(WILKINS_CALLER) ? correct(path, list, count, filter, compare) : count;
} WILKINS_OR(-1)
WILKINS_ALIAS(scandir64, scandir);
