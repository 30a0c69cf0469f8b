// Watches of inotify on folders that hold steps.
//
// Such a watch has a twin of the same descriptor on a folder of the run, in which a thread makes a file by the name of
// each step that the rank may read and has not consumed. So the kernel's own events tell of steps, to whatever waits
// for the descriptor. As they are read they become those of the program's watch.
#include "posix/watches.hpp"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <set>
#include <string>

#include "base/raw.hpp"
#include "board/of_process.hpp"
#include "board/process.hpp"
#include "posix/names.hpp"
#include "steps/disk.hpp"

namespace wilkins::posix::watches {
namespace {

const libc::Function<int(int, const char*, uint32_t)> add_watch{"inotify_add_watch"};
const libc::Function<int(int, int)> rm_watch{"inotify_rm_watch"};

constexpr int kLongest = 200;  // ms between looks, where a bell rings for all that comes,
constexpr int kSeveral = 20;   // and where not

struct Watch {
    int fd;
    int wd;
    int twin;
    uint32_t mask;
    std::string folder;  // that the twin watches
    Listed listed;
    std::set<uint64_t> reported;
};

struct Watches {
    std::mutex mutex;  // never held while the board is locked
    std::list<Watch> all;
    int made = 0;
    bool told = false;  // the process has a thread that tells of steps: a fork has not
};
OfProcess<Watches> of_process;

// Call with the mutex.
std::list<Watch>::iterator find(Watches& watches, int fd, int wd) {
    return std::find_if(watches.all.begin(), watches.all.end(),
                        [=](const Watch& one) { return one.fd == fd && one.wd == wd; });
}

// Makes a file that is new to the twin. A watch for what is moved there alone gets that event.
void tell(const Watch& watch, const std::string& name) {
    const bool moved = (watch.mask & IN_MOVED_TO) && !(watch.mask & (IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY));
    const std::string path = watch.folder + "/" + name, made = moved ? watch.folder + ".new" : path;
    const int fd = raw::open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return;
    raw::write(fd, "", 1);
    raw::close(fd);
    if (moved) rename(made.c_str(), path.c_str());
}

// True if the thread waits for what descriptors or other threads bring.
bool waits(const char* thread) {
    char path[64], text[32] = {};
    snprintf(path, sizeof(path), "/proc/self/task/%.20s/syscall", thread);
    const int fd = raw::open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    const ssize_t n = raw::read(fd, text, sizeof(text) - 1);
    raw::close(fd);
    if (n <= 0 || text[0] < '0' || text[0] > '9') return false;  // it runs
    static const long kinds[] = {
        SYS_read, SYS_ppoll,  SYS_pselect6,   SYS_epoll_pwait, SYS_futex,
#ifdef SYS_poll
        SYS_poll, SYS_select, SYS_epoll_wait,
#endif
    };
    const long call = strtol(text, nullptr, 10);
    return std::find(std::begin(kinds), std::end(kinds), call) != std::end(kinds);
}

// True if the program has nothing to do but to wait.
bool program_waits() {
    DIR* const threads = libc::opendir("/proc/self/task");
    if (!threads) return false;
    const long self = syscall(SYS_gettid);
    bool all_wait = true;
    while (const struct dirent* thread = all_wait ? libc::readdir(threads) : nullptr)
        if (thread->d_name[0] != '.' && strtol(thread->d_name, nullptr, 10) != self) all_wait = waits(thread->d_name);
    libc::closedir(threads);
    return all_wait;
}

// Tells of what has come since. `news`: of the last watch.
void tell_all(Watches& watches, News* news) {
    std::lock_guard<std::mutex> guard(watches.mutex);
    const bool idle = program_waits();
    for (Watch& watch : watches.all) {
        watch.listed.look_again();
        *news = list_unread(watch.listed, false);
        const size_t before = watch.reported.size();
        for (const ListedStep& step : news->steps)
            if (watch.reported.insert(step.identity).second) tell(watch, step.name);
        if (watch.reported.size() == before && idle) *news = list_unread(watch.listed, true);
        news->several = news->several || watches.all.size() > 1;
    }
}

void* tell_on(void* argument) {
    Watches& watches = *static_cast<Watches*>(argument);
    for (;;)
        guarded(
            "inotify",
            [&] {
                News news;
                tell_all(watches, &news);
                const Process& p = process();
                const bool rung = news.inport >= 0 && !news.several;
                if (rung) p.board.sleep(news.inport, news.bell, kLongest);
                else usleep(kSeveral * 1000);
                return 0;
            },
            [](int error) { return usleep(kLongest * 1000), error; });
    return nullptr;
}

// Call with the mutex.
void start_teller(Watches& watches) {
    if (watches.told) return;
    watches.told = true;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_t thread;
    if (pthread_create(&thread, nullptr, tell_on, &watches) == 0) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Steps may come to lie in the folder that the program watches: they are reported, too.
void add_twin(int fd, int wd, const char* path, uint32_t mask) {
    char clean[PATH_MAX];
    if (!normalise(path, clean, sizeof(clean))) return;
    const Folder folder = identify(path);
    if (folder.none() || !may_hold_steps(folder)) return;
    const Listed listed(clean, folder);
    const Content content = content_of(listed);
    if (content != Content::steps && content != Content::perhaps) return;
    Watches& watches = of_process.get();
    std::lock_guard<std::mutex> guard(watches.mutex);
    auto watch = find(watches, fd, wd);
    const bool is_new = watch == watches.all.end();
    if (is_new) {
        const Board& board = process().board;
        const std::string name =
            std::string(board.folder()) + "/i" + std::to_string(board.self()) + "." + std::to_string(watches.made++);
        if (mkdir(name.c_str(), 0700) != 0) return;
        watches.all.push_back({fd, wd, -1, mask, name, listed, {}});
        watch = std::prev(watches.all.end());
    }
    watch->mask = mask;
    watch->twin = add_watch(fd, watch->folder.c_str(), mask);
    if (!is_new) return;
    ++count;
    start_teller(watches);
}

void remove(Watches& watches, std::list<Watch>::iterator watch) {
    watches.all.erase(watch);
    --count;
}

// What the program is not to see: what the disk tells of steps, of which the twin tells, and of files that hide there.
bool is_hidden(const Watch& watch, const struct inotify_event& event) {
    if (event.len == 0) return false;
    if (strncmp(event.name, disk::kHidden, strlen(disk::kHidden)) == 0) return true;
    Match match;
    const std::string name = watch.listed.path.empty() ? event.name : watch.listed.path + "/" + event.name;
    return match_name(name.c_str(), &match) && match.inport >= 0 && match.outport < 0;
}

// The events that were read, as the program sees them. Returns how long they are.
size_t translate(Watches& watches, int fd, char* events, size_t size) {
    std::lock_guard<std::mutex> guard(watches.mutex);
    size_t kept = 0;
    for (size_t at = 0; at + sizeof(inotify_event) <= size;) {
        auto* const event = reinterpret_cast<struct inotify_event*>(events + at);
        const size_t length = sizeof(*event) + event->len;
        bool shown = true;
        for (const Watch& watch : watches.all) {
            if (watch.fd != fd) continue;
            if (event->wd == watch.twin) {
                event->wd = watch.wd;
                shown = event->len > 0;
                break;
            }
            if (event->wd == watch.wd) shown = !is_hidden(watch, *event);
        }
        if (shown) memmove(events + kept, events + at, length);
        if (shown) kept += length;
        at += length;
    }
    if (kept > 0) return kept;
    // There is something to read, as far as the program knows: an event of a hidden file.
    auto* const event = reinterpret_cast<struct inotify_event*>(events);
    for (const Watch& watch : watches.all)
        if (watch.fd == fd && event->wd == watch.twin) event->wd = watch.wd;
    if (event->len > strlen(disk::kHidden)) strcpy(event->name, disk::kHidden);
    return sizeof(*event) + event->len;
}

bool is_watched(Watches& watches, int fd) {
    std::lock_guard<std::mutex> guard(watches.mutex);
    return std::any_of(watches.all.begin(), watches.all.end(), [=](const Watch& watch) { return watch.fd == fd; });
}

}  // namespace

ssize_t read(int fd, void* buffer, size_t size) {
    Watches* const watches = of_process.known();
    const bool watched = watches && is_watched(*watches, fd);
    const ssize_t n = libc::read(fd, buffer, size);
    if (n <= 0 || !watched) return n;
    return static_cast<ssize_t>(translate(*watches, fd, static_cast<char*>(buffer), static_cast<size_t>(n)));
}

void forget(int fd) {
    Watches* const watches = of_process.known();
    if (!watches) return;
    std::lock_guard<std::mutex> guard(watches->mutex);
    for (auto watch = watches->all.begin(); watch != watches->all.end();) {
        const auto next = std::next(watch);
        if (watch->fd == fd) remove(*watches, watch);
        watch = next;
    }
}

}  // namespace wilkins::posix::watches

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(int, inotify_add_watch, int fd, const char* path, uint32_t mask) {
    const int wd = watches::add_watch(fd, path, mask);
    if (wd < 0 || !path || !in_run(WILKINS_CALLER)) return wd;
    const int saved = errno;
    watches::add_twin(fd, wd, path, mask);
    errno = saved;
    return wd;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, inotify_rm_watch, int fd, int wd) {
    if (watches::Watches* const known = watches::any() ? watches::of_process.known() : nullptr) {
        std::lock_guard<std::mutex> guard(known->mutex);
        const auto watch = watches::find(*known, fd, wd);
        if (watch != known->all.end()) {
            watches::rm_watch(fd, watch->twin);
            watches::remove(*known, watch);
        }
    }
    return watches::rm_watch(fd, wd);
}
WILKINS_OR(-1)
