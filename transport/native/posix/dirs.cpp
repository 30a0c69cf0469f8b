// Directory listings that show what an open would find: steps that are there to be read, those that the task itself has
// written, and no stale file of such a name.
#include "posix/dirs.hpp"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/held_at_forks.hpp"
#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "posix/in_set.hpp"
#include "posix/names.hpp"
#include "posix/python_imports.hpp"
#include "steps/disk.hpp"

namespace wilkins::posix {
namespace {

// A directory that the program reads, and in which there are steps.
struct Listing {
    explicit Listing(const Listed& folder) : listed(folder) {}

    DIR* directory = nullptr;
    Listed listed;
    std::vector<ListedStep> steps;  // to be shown after what is on the disk
    size_t next = 0;
    bool at_steps = false;  // all that is on the disk was shown
    struct dirent shown = {};
    Listing* older = nullptr;
};

std::mutex listings_mutex;
HeldAtForks held_at_forks(listings_mutex);
std::atomic<Listing*> listings{nullptr};

std::string normalised(const char* path) {
    char clean[PATH_MAX];
    return normalise(path, clean, sizeof(clean)) ? clean : path;
}

// Where files of installed software and of the system lie, and hidden ones: no data that a program waits for.
bool may_hold_data(const std::string& path) {
    constexpr const char* kSystem[] = {"/usr", "/lib", "/lib64", "/etc", "/opt",  "/proc", "/sys",
                                       "/dev", "/run", "/var",   "/bin", "/sbin", "/boot"};
    for (const char* root : kSystem) {
        const size_t length = strlen(root);
        if (path.compare(0, length, root) == 0 && (path.size() == length || path[length] == '/'))
            return path.compare(0, 9, "/dev/shm/") == 0;
    }
    if (path.find("/site-packages") != std::string::npos || path.find("/lib/python") != std::string::npos) return false;
    for (size_t at = 0; at < path.size();
         at = path.find('/', at) == std::string::npos ? path.size() : path.find('/', at) + 1)
        if (path[at] == '.' && path.compare(at, 2, "..") != 0) return false;
    return true;
}

// What is to be shown of the folder, after what has to be waited for; nullptr if that is what the disk holds. All that
// can fail for want of memory comes before a directory is opened.
std::unique_ptr<Listing> prepare(const char* path, Folder folder, const void* caller) {
    if (!may_hold_steps(folder)) return nullptr;
    Listed listed(normalised(path), folder);
    Content content = content_of(listed);
    const bool leads = leads_to_steps(listed);
    if (!leads && (content == Content::nothing ||
                   (content == Content::perhaps && !(may_hold_data(listed.path) && is_made_by_program(caller)))))
        return nullptr;
    const bool by_program = (leads || content != Content::files) && !is_import(caller);
    if (by_program) {
        await_listing(listed, content == Content::perhaps);
        content = content_of(listed);
    }
    if (content != Content::files && content != Content::steps) return nullptr;
    auto listing = std::make_unique<Listing>(listed);
    listing->steps = list_steps(listed, by_program);
    return listing;
}

DIR* enlist(DIR* directory, std::unique_ptr<Listing> listing) {
    if (!directory || !listing) return directory;
    listing->directory = directory;
    std::lock_guard<std::mutex> lock(listings_mutex);
    listing->older = listings;
    listings = listing.release();
    return directory;
}

// The name of an open folder; false if it has none.
bool name_of(int fd, char (&path)[PATH_MAX]) {
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length <= 0) return false;
    path[length] = 0;
    return true;
}

Listing* find_listing(DIR* directory) {
    if (!listings.load(std::memory_order_acquire)) return nullptr;
    std::lock_guard<std::mutex> lock(listings_mutex);
    Listing* listing = listings;
    while (listing && listing->directory != directory) listing = listing->older;
    return listing;
}

void drop_listing(DIR* directory) {
    if (!listings.load(std::memory_order_acquire)) return;
    std::lock_guard<std::mutex> lock(listings_mutex);
    Listing* newer = nullptr;
    for (Listing* at = listings; at; newer = at, at = at->older) {
        if (at->directory != directory) continue;
        if (newer) newer->older = at->older;
        else listings = at->older;
        delete at;
        return;
    }
}

bool is_directory(const std::string& name, unsigned char type) {
    return type == DT_UNKNOWN || type == DT_LNK ? disk::is_directory(name.c_str()) : type == DT_DIR;
}

// True if an open would not lead to the disk's file, or that is shown as a step already. One that holds a step is shown
// with that one's number.
bool is_covered(const Listing& listing, const Match& match, struct dirent& entry) {
    uint64_t stored_as;
    if (wilkins::is_covered(listing.listed, match, &stored_as)) return true;
    if (!stored_as) return false;
    entry.d_ino = stored_as;
    const auto same = [&](const ListedStep& step) { return step.name == entry.d_name; };
    return std::any_of(listing.steps.begin(), listing.steps.end(), same);
}

// True if the program is not to see the disk's entry. A file that has the name of a port's is not what an open would
// lead to, and one of ours that is being written is none of the program's business.
bool is_hidden(DIR* directory, const Listing* listing, struct dirent& entry) {
    if (strncmp(entry.d_name, disk::kHidden, strlen(disk::kHidden)) == 0) return true;
    if (!could_match(entry.d_name)) return false;
    const int saved = errno;
    char path[PATH_MAX];
    Match match;
    bool hidden = false;
    if (listing || name_of(dirfd(directory), path)) {
        const std::string folder = listing ? listing->listed.path : path;
        const std::string name = folder.empty()  ? entry.d_name
                                 : folder == "/" ? folder + entry.d_name
                                                 : folder + "/" + entry.d_name;
        // In a folder without steps, a file may still be one that the task writes anew.
        const std::vector<ListedStep> none;
        for (const ListedStep& step : listing ? listing->steps : none)
            hidden = hidden || ((step.is_folder || step.is_in_set) && step.name == entry.d_name);
        if (hidden || (listing && match_set(name.c_str(), &match, Purpose::ask))) {
            errno = saved;
            return hidden || covers_set(listing->listed, match, is_directory(name, entry.d_type));
        }
        hidden = match_name(name.c_str(), &match) &&
                 (listing ? is_covered(*listing, match, entry) : match.inport < 0 && !on_disk(match)) &&
                 !is_directory(name, entry.d_type);
    }
    errno = saved;
    return hidden;
}

void fill(const ListedStep& step, struct dirent* entry) {
    entry->d_ino = step.identity;
    entry->d_type = step.is_folder ? DT_DIR : DT_REG;
    entry->d_reclen = sizeof(*entry);
    memcpy(entry->d_name, step.name.c_str(), step.name.size() + 1);
}

// The result of scandir, in memory that its program frees; freed here if the program's own functions leave it by an
// exception, or if there is no memory for it.
class Scanned {
public:
    Scanned() = default;
    ~Scanned() {
        for (size_t i = 0; i < count_; ++i) free(entries_[i]);
        free(entries_);
    }
    Scanned(const Scanned&) = delete;
    Scanned& operator=(const Scanned&) = delete;

    void add(const struct dirent& entry) {
        if (count_ == room_) {
            const size_t room = room_ ? 2 * room_ : 16;
            auto** longer = static_cast<struct dirent**>(realloc(entries_, sizeof(*entries_) * room));
            if (!longer) throw std::bad_alloc();
            entries_ = longer;
            room_ = room;
        }
        const size_t size = offsetof(struct dirent, d_name) + strlen(entry.d_name) + 1;
        auto* copy = static_cast<struct dirent*>(malloc(size));
        if (!copy) throw std::bad_alloc();
        memcpy(static_cast<void*>(copy), &entry, size);
        entries_[count_++] = copy;
    }
    int sort_and_give(int (*compare)(const struct dirent**, const struct dirent**), struct dirent*** list) {
        if (compare && count_)
            qsort(entries_, count_, sizeof(*entries_), reinterpret_cast<int (*)(const void*, const void*)>(compare));
        if (!entries_)
            entries_ =
                static_cast<struct dirent**>(malloc(sizeof(*entries_)));  // as the C library: a list, if an empty one
        if (!entries_) throw std::bad_alloc();
        *list = std::exchange(entries_, nullptr);
        return static_cast<int>(std::exchange(count_, 0));
    }

private:
    struct dirent** entries_ = nullptr;
    size_t count_ = 0;
    size_t room_ = 0;
};

// Closes what the call itself has opened.
struct Closing {
    DIR* directory;
    ~Closing() { close_directory(directory); }
};

using Filter = int (*)(const struct dirent*);
using Compare = int (*)(const struct dirent**, const struct dirent**);

// The C library's scandir does not come through readdir: this one does. Takes the directory. Returns the number of
// entries, or -1.
int scan(DIR* directory, struct dirent*** list, Filter filter, Compare compare) {
    if (!directory) return -1;
    const Closing closing{directory};
    const int saved = errno;
    Scanned scanned;
    for (;;) {
        errno = 0;
        const struct dirent* entry = read_directory(directory);
        if (!entry && errno != 0) return -1;
        if (!entry) break;
        if (!filter || filter(entry)) scanned.add(*entry);
    }
    const int count = scanned.sort_and_give(compare, list);
    errno = saved;
    return count;
}

// glob(3) does not either, unless it gets the functions to call.
thread_local const void* globs_for = nullptr;

void* glob_open(const char* path) { return open_directory(path, globs_for); }
struct dirent* glob_read(void* directory) { return read_directory(static_cast<DIR*>(directory)); }
void glob_close(void* directory) { close_directory(static_cast<DIR*>(directory)); }
int glob_stat(const char* path, struct stat* st) { return stat_for_program(path, st, true); }
int glob_lstat(const char* path, struct stat* st) { return stat_for_program(path, st, false); }

// The program's glob_t has no functions of its own: while this lives, it has ours.
class Ours {
public:
    explicit Ours(glob_t* found) : found_(found), before_(*found) {
        found->gl_opendir = glob_open;
        found->gl_readdir = glob_read;
        found->gl_closedir = glob_close;
        found->gl_stat = glob_stat;
        found->gl_lstat = glob_lstat;
    }
    ~Ours() {
        found_->gl_opendir = before_.gl_opendir;
        found_->gl_readdir = before_.gl_readdir;
        found_->gl_closedir = before_.gl_closedir;
        found_->gl_stat = before_.gl_stat;
        found_->gl_lstat = before_.gl_lstat;
        found_->gl_flags &= ~GLOB_ALTDIRFUNC;
    }
    Ours(const Ours&) = delete;
    Ours& operator=(const Ours&) = delete;

private:
    glob_t* const found_;
    const glob_t before_;
};

}  // namespace

DIR* open_directory(const char* path, const void* caller) {
    const InSet in_set(path, sets::Use::read, caller);
    if (in_set.failed()) return nullptr;
    if (!path || !in_run(caller) || !any_may_hold_steps()) return libc::opendir(path);
    const int before = errno;
    auto listing = prepare(path, identify(path), caller);
    errno = before;
    return enlist(libc::opendir(path), std::move(listing));
}

DIR* open_directory(int fd, const void* caller) {
    char path[PATH_MAX];
    if (!in_run(caller) || !any_may_hold_steps()) return libc::fdopendir(fd);
    const int before = errno;
    std::unique_ptr<Listing> listing;
    if (const Folder folder = identify(fd); !folder.none() && may_hold_steps(folder) && name_of(fd, path))
        listing = prepare(path, folder, caller);
    errno = before;
    return enlist(libc::fdopendir(fd), std::move(listing));
}

struct dirent* read_directory(DIR* directory) {
    Listing* listing = find_listing(directory);
    for (;;) {
        if (listing && listing->at_steps) {
            if (listing->next >= listing->steps.size()) return nullptr;
            fill(listing->steps[listing->next++], &listing->shown);
            return &listing->shown;
        }
        const int saved = errno;
        struct dirent* entry = libc::readdir(directory);
        if (entry && !is_hidden(directory, listing, *entry)) return entry;
        if (entry) continue;
        if (!listing || errno != saved) return nullptr;
        listing->at_steps = true;
    }
}

int close_directory(DIR* directory) {
    drop_listing(directory);
    return libc::closedir(directory);
}

}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(DIR*, opendir, const char* path) { return open_directory(path, WILKINS_CALLER); }
WILKINS_OR(nullptr)

WILKINS_INTERPOSE(DIR*, fdopendir, int fd) { return open_directory(fd, WILKINS_CALLER); }
WILKINS_OR(nullptr)

WILKINS_INTERPOSE(struct dirent*, readdir, DIR* directory) {
    return in_run(WILKINS_CALLER) ? read_directory(directory) : libc::readdir(directory);
}
WILKINS_OR(nullptr)
WILKINS_ALIAS(readdir64, readdir);

WILKINS_INTERPOSE(int, readdir_r, DIR* directory, struct dirent* entry, struct dirent** result) {
    if (!in_run(WILKINS_CALLER)) return libc::readdir_r(directory, entry, result);
    const int saved = errno;
    errno = 0;
    const struct dirent* found = read_directory(directory);
    const int error = found ? 0 : errno;
    errno = saved;
    if (found) memcpy(static_cast<void*>(entry), found, offsetof(struct dirent, d_name) + strlen(found->d_name) + 1);
    *result = found ? entry : nullptr;
    return error;
}
WILKINS_OR(errno)
WILKINS_ALIAS(readdir64_r, readdir_r);

WILKINS_INTERPOSE(void, rewinddir, DIR* directory) {
    libc::rewinddir(directory);
    if (Listing* listing = find_listing(directory)) {
        listing->at_steps = false;
        listing->next = 0;
        listing->steps = list_steps(listing->listed, false);
    }
}
WILKINS_OR()

// Places among the steps are negative numbers.
WILKINS_INTERPOSE(long, telldir, DIR* directory) {
    const Listing* listing = find_listing(directory);
    return listing && listing->at_steps ? -1 - static_cast<long>(listing->next) : libc::telldir(directory);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(void, seekdir, DIR* directory, long place) {
    Listing* listing = find_listing(directory);
    if (listing) {
        listing->at_steps = place < 0;
        listing->next = place < 0 ? static_cast<size_t>(-1 - place) : 0;
    }
    if (!listing || place >= 0) libc::seekdir(directory, place);
}
WILKINS_OR()

WILKINS_INTERPOSE(int, closedir, DIR* directory) { return close_directory(directory); }
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, scandir, const char* path, struct dirent*** list, int (*filter)(const struct dirent*),
                  int (*compare)(const struct dirent**, const struct dirent**)) {
    if (!in_run(WILKINS_CALLER)) return libc::scandir(path, list, filter, compare);
    return scan(open_directory(path, WILKINS_CALLER), list, filter, compare);
}
WILKINS_OR(-1)
WILKINS_ALIAS(scandir64, scandir);

WILKINS_INTERPOSE(int, scandirat, int dirfd, const char* path, struct dirent*** list,
                  int (*filter)(const struct dirent*), int (*compare)(const struct dirent**, const struct dirent**)) {
    WILKINS_IN_SET(-1, read, dirfd, path);
    if (!in_run(WILKINS_CALLER)) return libc::scandirat(dirfd, path, list, filter, compare);
    const int fd = libc::openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -1;
    DIR* const directory = open_directory(fd, WILKINS_CALLER);
    if (!directory) libc::close(fd);
    return scan(directory, list, filter, compare);
}
WILKINS_OR(-1)
WILKINS_ALIAS(scandirat64, scandirat);

WILKINS_INTERPOSE(int, glob, const char* pattern, int flags, int (*failed)(const char*, int), glob_t* found) {
    if (!found || (flags & GLOB_ALTDIRFUNC) || !in_run(WILKINS_CALLER))
        return libc::glob(pattern, flags, failed, found);
    const Ours ours(found);
    const void* const before = std::exchange(globs_for, WILKINS_CALLER);
    const int result = libc::glob(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
    globs_for = before;
    return result;
}
WILKINS_OR(GLOB_NOSPACE)
WILKINS_ALIAS(glob64, glob);
