// Views of steps: how programs get them, and who has some.
#include "steps/viewers.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/raw.hpp"
#include "board/views.hpp"
#include "waiting/thread_state.hpp"

namespace wilkins::viewers {

namespace {

bool is_in_memory(const Board& board, const SlotRecord& slot) {
    return board.port(board.source(slot.source).port).keys.mode != Mode::file;
}

}  // namespace

int show(const StepFile& step, int fd) {
    if (fd < 0 || step.state->slot < 0) return 0;
    const Board& board = process().board;
    SlotRecord& slot = board.slot(step.state->slot);
    if (!is_in_memory(board, slot)) return 0;  // a file on disk is never another step's
    if (const int error = views::keep(fd)) return error;
    slot.viewed.store(1);
    return 0;
}

// By a lock on a byte of this one description.
bool is_shared(int fd) {
    static std::atomic<off_t> next{0};
    const off_t place = raw::kLockPlaces + (static_cast<off_t>(getpid()) << 24) + (next++ & 0xffffff) + 1;
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const int other = raw::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
    if (other < 0) return false;
    const bool shared =
        raw::share_byte(fd, place) == 0 && raw::replace(fd, other) >= 0 && !raw::is_byte_free(other, place);
    raw::close(other);
    return shared;
}

namespace {

// Where no program has a descriptor of a step, none can be sent from, and the kernel need not be asked.
bool is_any_in_view(const Board& board) {
    for (const SlotRecord& slot : slots_of(board))
        if (slot.viewed.load()) return true;
    return false;
}

}  // namespace

void note_sent(int from, int to) {
    const Process& p = process();
    if (!p.context.active || !is_any_in_view(p.board)) return;
    const int before = errno;
    struct stat st;
    const bool copies = to >= 0 && raw::fstat(to, &st) == 0 && S_ISREG(st.st_mode);
    const int slot = copies ? -1 : p.arenas->slot_of(from);
    if (slot >= 0) p.board.slot(slot).sent.store(1);
    errno = before;
}

void note_sent(const void* address) {
    const Process& p = process();
    if (!p.context.active) return;
    Mapping mapping;
    if (const int slot = p.arenas->find(address, &mapping); slot >= 0) p.board.slot(slot).sent.store(1);
    for (SlotRecord& slot : slots_of(p.board))
        if (slot.viewed.load()) slot.sent.store(1);
}

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kPatience = 3 * kSecond;  // with processes that wait,
constexpr int64_t kLongPatience =
    10 * kSecond;  // one of whose threads may go on, that others may wake, or that cannot be found

// True if the path is that of an arena of the run.
bool is_arena(const char* path, const std::string& folder) {
    if (strncmp(path, folder.c_str(), folder.size()) != 0) return false;
    const char* const name = path + folder.size();
    return strncmp(name, "/v", 2) == 0 || (strncmp(name, "/a", 2) == 0 && strchr(name, '.') == nullptr);
}

// True if the process has an arena open, but by a handle of the layer itself.
bool has_descriptor(long pid, const std::string& folder) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/fd", pid);
    DIR* const files = opendir(path);
    bool found = false;
    while (const struct dirent* const entry = files && !found ? readdir(files) : nullptr) {
        char link[PATH_MAX];
        const ssize_t n = readlinkat(dirfd(files), entry->d_name, link, sizeof(link) - 1);
        link[std::max<ssize_t>(n, 0)] = 0;
        found = n > 0 && is_arena(link, folder);
    }
    if (files) closedir(files);
    return found;
}

// ... or mapped? The layer's own mappings go on to addresses that may not be touched.
bool has_mapping(long pid, const std::string& folder) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/maps", pid);
    FILE* const maps = fopen(path, "re");
    unsigned long last = 0;  // end of a part that may be a program's mapping; 0: there is none
    bool found = false;
    char line[PATH_MAX + 128];
    while (maps && !found && fgets(line, sizeof(line), maps)) {
        unsigned long begin = 0, end = 0;
        char rights[8] = "";
        int at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &begin, &end, rights, &at) < 3) continue;
        const bool closed = rights[0] == '-' && end - begin > 4096;
        found = last != 0 && !(closed && begin == last);
        last = at > 0 && !closed && is_arena(line + at, folder) ? end : 0;
    }
    if (maps) fclose(maps);
    return found || last != 0;
}

bool has_threads(long pid) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/task", pid);
    struct stat st;
    return stat(path, &st) == 0 && st.st_nlink > 3;
}

bool waits(const Board& board, long pid) {
    for (const RankRecord& rank : ranks_of(board))
        for (const WaitRecord& wait : rank.waits)
            if (wait.what != WaitFor::nothing && wait.pid == pid) return true;
    return pid == getpid();
}

// True if all its threads sleep until somebody wakes them. `times`: how often they have gone to sleep is added to it.
bool sleeps(const Board& board, int pid, uint64_t* times) {
    const std::vector<int> threads = threads_of(pid);
    Board::Lock lock(board);
    return !threads.empty() && std::all_of(threads.begin(), threads.end(), [&](int thread) {
        *times += switches(pid, thread);
        return sleep_of(pid, thread) != Sleep::none || state_of(pid, thread) != ThreadState::running;
    });
}

// Processes that can see steps of the run.
std::vector<long> find_all(const std::string& folder) {
    std::vector<long> found;
    DIR* const processes = opendir("/proc");
    while (const struct dirent* const entry = processes ? readdir(processes) : nullptr) {
        const long pid = strtol(entry->d_name, nullptr, 10);
        if (pid > 0 && (has_descriptor(pid, folder) || has_mapping(pid, folder))) found.push_back(pid);
    }
    if (processes) closedir(processes);
    return found;
}

void add_name(std::string& names, long pid) {
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    const int fd = raw::open(path, O_RDONLY | O_CLOEXEC, 0);
    const ssize_t n = fd < 0 ? 0 : raw::read(fd, name, sizeof(name) - 1);
    if (fd >= 0) raw::close(fd);
    name[n > 0 ? n - 1 : 0] = 0;
    names += (names.empty() ? "process " : ", process ") + std::to_string(pid) + " (" + name + ")";
}

std::string names_of(const std::vector<long>& processes) {
    constexpr size_t kMostNames = 4;
    if (processes.empty()) return "no process that can be found here";
    std::string names;
    for (size_t k = 0; k < std::min(processes.size(), kMostNames); ++k) add_name(names, processes[k]);
    if (processes.size() > kMostNames) names += " and " + std::to_string(processes.size() - kMostNames) + " more";
    return names;
}

}  // namespace

std::string names(const Board& board) { return names_of(find_all(board.folder())); }

bool Watch::may_end() {
    const Board& board = process().board;
    const int64_t now = now_ns();
    if (now < next_) return true;
    next_ = now + kSecond / 2;
    bool waiting = true, threads = false;
    asleep_ = false;
    uint64_t times = 0;
    const std::vector<long> processes = find_all(board.folder());
    names_ = names_of(processes);
    for (const long pid : processes) {
        const bool asleep = !waits(board, pid);
        asleep_ = asleep_ || asleep;
        waiting = waiting && (!asleep || sleeps(board, static_cast<int>(pid), &times));
        threads = threads || has_threads(pid);
    }
    if (!waiting) since_ = 0;
    else if (since_ == 0 || times != times_) since_ = now;
    times_ = times;
    return since_ == 0 || now - since_ < (threads || asleep_ || processes.empty() ? kLongPatience : kPatience);
}

}  // namespace wilkins::viewers
