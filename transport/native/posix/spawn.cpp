// posix_spawn and its file actions. The C library opens what an action names by itself, in the new process; names that
// may be a port's are opened here, just before the process is started, and an action of ours duplicates the descriptor
// there.
#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "base/held_at_forks.hpp"
#include "base/raw.hpp"
#include "posix/files.hpp"

namespace wilkins::posix {
namespace {

constexpr int kPlaces = 256;  // our descriptors lie from here, above those that programs use in their actions

struct OpenAction {
    const posix_spawn_file_actions_t* actions;
    int place;  // a descriptor that the action duplicates, of nothing until a process is started
    std::string path;
    int flags;
    mode_t mode;
};

std::mutex actions_mutex;
HeldAtForks actions_held_at_forks(actions_mutex);
std::vector<OpenAction> opens;
std::vector<const posix_spawn_file_actions_t*> moved;  // they change the folder
std::atomic<size_t> known{0};                          // entries of both

void count() { known = opens.size() + moved.size(); }

// Lets a descriptor lead to nothing.
int empty_place(int place) {
    const int nothing = raw::open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
    if (nothing < 0) return -1;
    const int result =
        place < 0 ? libc::fcntl(nothing, F_DUPFD_CLOEXEC, kPlaces) : libc::dup3(nothing, place, O_CLOEXEC);
    raw::close(nothing);
    return result;
}

// The actions are new, or no more.
void drop(const posix_spawn_file_actions_t* actions) {
    if (known.load(std::memory_order_relaxed) == 0) return;
    std::lock_guard<std::mutex> lock(actions_mutex);
    for (const OpenAction& one : opens)
        if (one.actions == actions) raw::close(one.place);
    opens.erase(
        std::remove_if(opens.begin(), opens.end(), [=](const OpenAction& one) { return one.actions == actions; }),
        opens.end());
    moved.erase(std::remove(moved.begin(), moved.end(), actions), moved.end());
    count();
}

bool is_moved(const posix_spawn_file_actions_t* actions) {
    std::lock_guard<std::mutex> lock(actions_mutex);
    return std::find(moved.begin(), moved.end(), actions) != moved.end();
}

// `error`: of the call that has made them change the folder.
int moves(const posix_spawn_file_actions_t* actions, int error, const void* caller) {
    if (error || !in_run(caller)) return error;
    std::lock_guard<std::mutex> lock(actions_mutex);
    moved.push_back(actions);
    count();
    return 0;
}

int add_open(posix_spawn_file_actions_t* actions, int fd, const char* path, int flags, mode_t mode) {
    std::lock_guard<std::mutex> lock(actions_mutex);
    opens.push_back({actions, -1, path, flags, mode});
    const int place = empty_place(-1);
    const int error = place < 0 ? errno : posix_spawn_file_actions_adddup2(actions, place, fd);
    if (error) {
        if (place >= 0) raw::close(place);
        opens.pop_back();
    } else {
        opens.back().place = place;
    }
    count();
    return error;
}

// The files that actions open, open while it lives.
class Opened {
public:
    Opened(const posix_spawn_file_actions_t* actions, const void* caller) {
        if (!actions || known.load(std::memory_order_relaxed) == 0) return;
        {
            std::lock_guard<std::mutex> lock(actions_mutex);
            for (const OpenAction& one : opens)
                if (one.actions == actions) files_.push_back({one, -1});
        }
        for (File& file : files_) {
            if (error_) break;
            const OpenAction& action = file.action;
            file.fd = open_name(AT_FDCWD, action.path.c_str(), action.flags | O_CLOEXEC, action.mode, caller);
            if (file.fd < 0 || libc::dup3(file.fd, action.place, O_CLOEXEC) < 0) error_ = errno;
            else if (OpenStep* const step = find(file.fd)) step->settle();
        }
    }
    ~Opened() {
        for (const File& file : files_) {
            if (file.fd < 0) continue;
            empty_place(file.action.place);
            forget(file.fd);
            libc::close(file.fd);
        }
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    int error() const { return error_; }

private:
    struct File {
        OpenAction action;
        int fd;
    };
    std::vector<File> files_;
    int error_ = 0;
};

template <class Call>
int spawn(const posix_spawn_file_actions_t* actions, const void* caller, Call call) {
    const Opened opened(actions, caller);
    if (opened.error()) return opened.error();
    hand_all_to_child();
    return call();
}

}  // namespace
}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(int, posix_spawn_file_actions_init, posix_spawn_file_actions_t* actions) {
    drop(actions);
    return libc::posix_spawn_file_actions_init(actions);
}
WILKINS_OR(errno)

WILKINS_INTERPOSE(int, posix_spawn_file_actions_destroy, posix_spawn_file_actions_t* actions) {
    drop(actions);
    return libc::posix_spawn_file_actions_destroy(actions);
}
WILKINS_OR(errno)

WILKINS_INTERPOSE(int, posix_spawn_file_actions_addopen, posix_spawn_file_actions_t* actions, int fd, const char* path,
                  int flags, mode_t mode) {
    if (!in_run(WILKINS_CALLER) || !path || !could_match(path) || (path[0] != '/' && is_moved(actions)))
        return libc::posix_spawn_file_actions_addopen(actions, fd, path, flags, mode);
    return add_open(actions, fd, path, flags, mode);
}
WILKINS_OR(errno)

WILKINS_INTERPOSE(int, posix_spawn_file_actions_addchdir_np, posix_spawn_file_actions_t* actions, const char* path) {
    return moves(actions, libc::posix_spawn_file_actions_addchdir_np(actions, path), WILKINS_CALLER);
}
WILKINS_OR(errno)

WILKINS_INTERPOSE(int, posix_spawn_file_actions_addfchdir_np, posix_spawn_file_actions_t* actions, int fd) {
    return moves(actions, libc::posix_spawn_file_actions_addfchdir_np(actions, fd), WILKINS_CALLER);
}
WILKINS_OR(errno)

WILKINS_INTERPOSE(int, posix_spawn, pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                  const posix_spawnattr_t* attributes, char* const* words, char* const* variables) {
    const libc::KeptErrno kept;
    return kept(spawn(actions, WILKINS_CALLER,
                      [=] { return libc::posix_spawn(child, path, actions, attributes, words, variables); }));
}
WILKINS_OR(errno)

WILKINS_INTERPOSE(int, posix_spawnp, pid_t* child, const char* name, const posix_spawn_file_actions_t* actions,
                  const posix_spawnattr_t* attributes, char* const* words, char* const* variables) {
    const libc::KeptErrno kept;
    return kept(spawn(actions, WILKINS_CALLER,
                      [=] { return libc::posix_spawnp(child, name, actions, attributes, words, variables); }));
}
WILKINS_OR(errno)

// The same, giving a descriptor of the process. C libraries before 2.39 have neither.
WILKINS_INTERPOSE(int, pidfd_spawn, int* child, const char* path, const posix_spawn_file_actions_t* actions,
                  const posix_spawnattr_t* attributes, char* const* words, char* const* variables) {
    const libc::KeptErrno kept;
    return kept(spawn(actions, WILKINS_CALLER, [=] {
        return libc::pidfd_spawn.get() ? libc::pidfd_spawn(child, path, actions, attributes, words, variables) : ENOSYS;
    }));
}
WILKINS_OR(errno)

WILKINS_INTERPOSE(int, pidfd_spawnp, int* child, const char* name, const posix_spawn_file_actions_t* actions,
                  const posix_spawnattr_t* attributes, char* const* words, char* const* variables) {
    const libc::KeptErrno kept;
    return kept(spawn(actions, WILKINS_CALLER, [=] {
        return libc::pidfd_spawnp.get() ? libc::pidfd_spawnp(child, name, actions, attributes, words, variables)
                                        : ENOSYS;
    }));
}
WILKINS_OR(errno)
