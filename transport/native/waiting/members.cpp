// Notes who uses a rank's ports, and tells of whom it is known that they wait.
#include "waiting/members.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "waiting/thread_state.hpp"
#include "waiting/starters.hpp"

namespace wilkins {

namespace {

// A fork's thread has another number than the one that made it.
struct Thread {
    uint32_t process;
    int32_t number;
};
__attribute__((tls_model("initial-exec"))) thread_local Thread known_thread = {0, 0};

int32_t this_thread(uint32_t process) {
    if (known_thread.process != process) known_thread = {process, static_cast<int32_t>(syscall(SYS_gettid))};
    return known_thread.number;
}

bool is_own(const Member& member, uint32_t process, int32_t thread) {
    return member.process == process && member.thread == thread;
}

// What can be known of the thread from outside of its process.
ThreadState state_of_member(const Board& board, const Member& member) {
    return member.pid_namespace == board.pid_namespace() ? state_of(member.pid, member.thread) : ThreadState::running;
}

bool is_over(const Board& board, const Member& member) {
    return board.is_over(member.process) || state_of_member(board, member) == ThreadState::ended;
}

Member* find_own(RankRecord& rank, uint32_t process, int32_t thread) {
    for (Member& member : rank.members)
        if (is_own(member, process, thread)) return &member;
    return nullptr;
}

// A place for a thread whose process was started by `starter`; nullptr: there is none. One that has ended is known by
// the last that its starter has started.
Member* find_place(const Board& board, RankRecord& rank, int32_t starter) {
    Member* free = nullptr;
    for (Member& member : rank.members) {
        if (member.process && member.starters[0] == starter && is_over(board, member)) return &member;
        if (!free && member.process == 0) free = &member;
    }
    for (Member& member : rank.members)
        if (!free && is_over(board, member)) free = &member;
    return free;
}

// A process that has started several may start more of them while one waits. `before`: the place was that of another
// one.
void note_others(RankRecord& rank, Member* member, bool before) {
    member->one_of_several = before && member->starters[0];
    for (Member& other : rank.members)
        if (&other != member && other.process && other.pid != member->pid && other.starters[0] &&
            other.starters[0] == member->starters[0])
            other.one_of_several = member->one_of_several = 1;
}

bool is_among(const RankRecord& rank, const Member& member) {
    return rank.among.load(std::memory_order_relaxed) == member.process &&
           rank.among_thread.load(std::memory_order_relaxed) == member.thread;
}

// True if it is known what the rank's living threads do that use ports.
bool is_member(const Board& board, const RankRecord& rank, int pid, int thread) {
    return std::any_of(std::begin(rank.members), std::end(rank.members), [&](const Member& member) {
        return member.process && member.pid == pid && member.thread == thread && !board.is_over(member.process);
    });
}

// What may go on in place of a thread that has ended, of its process, or beside that (`beside`): whatever has started
// it.
int find_successor(const Board& board, const RankRecord& rank, const Member& member, bool beside) {
    if (member.pid_namespace != board.pid_namespace()) return 0;
    int living = beside || is_gone(member.pid) ? 0 : member.pid;
    for (int k = 0; living == 0 && k < kStarters && member.starters[k]; ++k)
        if (!is_gone(member.starters[k])) living = member.starters[k];
    if (living == 0) return 0;
    return find_mover(living, is_quiet(board), Ages::all,
                      [&](int pid, int thread) { return is_member(board, rank, pid, thread); });
}

// A process of the rank that was started just now, beside those that have used ports.
int find_beginner(const Board& board, const RankRecord& rank) {
    int asked = 0;
    for (const Member& member : rank.members) {
        if (member.process == 0 || member.pid_namespace != board.pid_namespace()) continue;
        int top = member.pid;
        for (const int32_t starter : member.starters)
            if (starter) top = starter;
        if (top == asked || is_gone(top)) continue;
        asked = top;
        if (const int pid = find_mover(top, is_quiet(board), Ages::young,
                                       [&](int p, int thread) { return is_member(board, rank, p, thread); }))
            return pid;
    }
    return 0;
}

// A process of the rank of which it is not known that it waits, and which of its threads, if that is known; pid 0:
// there is none.
struct Unsure {
    int pid = 0;
    int thread = 0;
};

Unsure find_unsure(const Board& board, int index) {
    const RankRecord& rank = board.rank(index);
    const bool quiet = is_quiet(board);
    std::vector<const Member*> ended, several;
    for (const Member& member : rank.members) {
        if (member.process == 0) continue;
        const bool over = board.is_over(member.process);
        if (!over && member.one_of_several) several.push_back(&member);
        if (!over &&
            (member.does != Doing::moves || (is_among(rank, member) && is_among_ranks(board, index, kAmongNs))))
            continue;
        const ThreadState state = over ? ThreadState::ended : state_of_member(board, member);
        if (state == ThreadState::ended) ended.push_back(&member);
        else if (!quiet || state == ThreadState::running) return {member.pid, member.thread};
    }
    for (const Member* const member : ended)
        if (const int pid = find_successor(board, rank, *member, false)) return {pid, 0};
    for (const Member* const member : several)
        if (const int pid = find_successor(board, rank, *member, true)) return {pid, 0};
    return {find_beginner(board, rank), 0};
}

}  // namespace

bool is_quiet(const Board& board) { return now_ns() - board.head().moved_at >= kUnsureNs; }

void note_member(const Board& board, int index, bool waits) {
    RankRecord& rank = board.rank(index);
    const uint32_t process = board.self();
    const int32_t thread = this_thread(process);
    Member* place = find_own(rank, process, thread);
    int32_t starters[kStarters] = {};
    if (!place) {
        find_starters(starters);
        place = find_place(board, rank, starters[0]);
    }
    if (!place) {
        rank.more_members = 1;
        ++board.head().moves;
        return;
    }
    const Doing does = waits ? Doing::waits : Doing::moves;
    if (!is_own(*place, process, thread)) {
        ++board.head().moves;
        const int32_t before = place->process ? place->starters[0] : 0;
        place->process = 0;
        place->pid = getpid();
        place->thread = thread;
        place->pid_namespace = board.pid_namespace();
        memcpy(place->starters, starters, sizeof(starters));
        note_others(rank, place, before == starters[0]);
    } else if (place->does != does) {
        ++board.head().moves;
    }
    place->does = does;
    place->process = process;
    if (waits) return;
    // It may wake others of its process.
    for (Member& member : rank.members)
        if (member.process == process && member.does == Doing::sleeps) member.does = Doing::moves;
}

WaitRecord* find_wait_place(const Board& board, int rank) {
    const uint32_t process = board.self();
    const int32_t thread = this_thread(process);
    WaitRecord* free = nullptr;
    for (WaitRecord& wait : board.rank(rank).waits) {
        if (wait.what != WaitFor::nothing && wait.process == process && wait.thread == thread) return &wait;
        if (!free && wait.what == WaitFor::nothing) free = &wait;
    }
    for (WaitRecord& wait : board.rank(rank).waits)
        if (!free && board.is_over(wait.process)) free = &wait;
    if (!free) return nullptr;
    free->what = WaitFor::nothing;
    free->found_nothing = 0;
    free->process = process;
    free->thread = thread;
    free->pid = getpid();
    return free;
}

void note_gone(const Board& board, int rank, bool began) {
    RankRecord& record = board.rank(rank);
    const bool used = std::any_of(std::begin(record.members), std::end(record.members),
                                  [](const Member& member) { return member.process != 0; });
    if (record.leaving == kNobody || !(began || used)) return;
    record.leaving = kNobody;
    ++board.head().moves;
}

void enter_among(const Board& board, RankRecord& rank) {
    const uint32_t process = board.self();
    rank.among.store(0, std::memory_order_relaxed);
    rank.among_since.store(now_ns(), std::memory_order_relaxed);
    rank.among_thread.store(this_thread(process), std::memory_order_relaxed);
    rank.among.store(process, std::memory_order_release);
}

void leave_among(const Board& board, RankRecord& rank) {
    const uint32_t process = board.self();
    if (rank.among.load(std::memory_order_relaxed) == process &&
        rank.among_thread.load(std::memory_order_relaxed) == this_thread(process))
        rank.among.store(0, std::memory_order_relaxed);
}

bool is_among_ranks(const Board& board, int index, int64_t least_ns) {
    const RankRecord& rank = board.rank(index);
    const uint32_t process = rank.among.load(std::memory_order_acquire);
    if (process == 0 || now_ns() - rank.among_since.load(std::memory_order_relaxed) < least_ns) return false;
    return !board.is_over(process);
}

// Until the task's other ranks are as far, nothing comes of it.
bool leaves(const Board& board, int rank) {
    const RankRecord& record = board.rank(rank);
    for (const WaitRecord& wait : record.waits)
        if (wait.what != WaitFor::nothing) return false;
    if (record.leaving == 0) return false;
    return record.leaving == kNobody || !board.is_over(record.leaving);
}

bool is_unsure(const Board& board, int rank) {
    return !leaves(board, rank) && (board.rank(rank).more_members || find_unsure(board, rank).pid);
}

std::string unsure_thread(const Board& board, int rank) {
    const Unsure found = find_unsure(board, rank);
    if (!found.pid) return "";
    return (found.thread ? "thread " + std::to_string(found.thread) + " of " : "") + "process " +
           std::to_string(found.pid);
}

void note_asleep(const Board& board, int index) {
    RankRecord& rank = board.rank(index);
    const uint32_t process = board.self();
    std::vector<int> waiting;  // in the layer
    bool others = false;
    for (const Member& member : rank.members) {
        if (member.process != process) continue;
        if (member.does == Doing::waits) waiting.push_back(member.thread);
        others = others || member.does == Doing::moves;
    }
    if (!others || !all_asleep(waiting)) return;
    ++board.head().moves;
    for (Member& member : rank.members)
        if (member.process == process && member.does == Doing::moves) member.does = Doing::sleeps;
}

}  // namespace wilkins
