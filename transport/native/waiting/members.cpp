// Notes who uses a rank's ports, and tells of whom it is known that they wait.
#include "waiting/members.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "waiting/rest.hpp"

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

bool is_own(const Member& member, uint32_t process, int32_t thread) { return member.process == process && member.thread == thread; }

// What can be known of the thread from outside of its process.
Rest rest_of_member(const Board& board, const Member& member) {
    return member.pid_namespace == board.pid_namespace() ? rest_of(member.pid, member.thread) : Rest::moves;
}

bool is_over(const Board& board, const Member& member) {
    return board.is_over(member.process) || rest_of_member(board, member) == Rest::over;
}

// The calling thread's place, or one that is free; nullptr: there is none.
Member* find_place(const Board& board, RankRecord& rank, uint32_t process, int32_t thread) {
    Member* free = nullptr;
    for (Member& member : rank.members) {
        if (is_own(member, process, thread)) return &member;
        if (!free && member.process == 0) free = &member;
    }
    for (Member& member : rank.members)
        if (!free && is_over(board, member)) free = &member;
    return free;
}

bool is_among(const RankRecord& rank, const Member& member) {
    return rank.among.load(std::memory_order_relaxed) == member.process && rank.among_thread.load(std::memory_order_relaxed) == member.thread;
}

// The first thread of the rank of which it is not known that it waits; nullptr: there is none.
const Member* find_unsure(const Board& board, int index) {
    const RankRecord& rank = board.rank(index);
    const bool quiet = is_quiet(board);
    for (const Member& member : rank.members) {
        if (member.process == 0 || member.does != Doing::moves || board.is_over(member.process)) continue;
        if (is_among(rank, member) && is_among_ranks(board, index, kAmongNs)) continue;
        const Rest rest = rest_of_member(board, member);
        if (rest == Rest::over || (quiet && rest != Rest::moves)) continue;
        return &member;
    }
    return nullptr;
}

}  // namespace

bool is_quiet(const Board& board) { return now_ns() - board.head().moved_at >= kUnsureNs; }

void note_member(const Board& board, int index, bool waits) {
    RankRecord& rank = board.rank(index);
    const uint32_t process = board.self();
    const int32_t thread = this_thread(process);
    Member* const place = find_place(board, rank, process, thread);
    if (!place) {
        rank.more_members = 1;
        ++board.head().moves;
        return;
    }
    const Doing does = waits ? Doing::waits : Doing::moves;
    if (!is_own(*place, process, thread)) {
        ++board.head().moves;
        place->process = 0;
        place->pid = getpid();
        place->thread = thread;
        place->pid_namespace = board.pid_namespace();
    } else if (place->does != does) {
        ++board.head().moves;
    }
    place->does = does;
    place->process = process;
    if (waits) return;
    // It may wake others of its process.
    for (Member& member : rank.members)
        if (member.process == process && member.does == Doing::rests) member.does = Doing::moves;
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
    free->in_vain = 0;
    free->process = process;
    free->thread = thread;
    free->pid = getpid();
    return free;
}

void note_gone(const Board& board, int rank, bool began) {
    RankRecord& record = board.rank(rank);
    const bool used = std::any_of(std::begin(record.members), std::end(record.members), [](const Member& member) { return member.process != 0; });
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
    if (rank.among.load(std::memory_order_relaxed) == process && rank.among_thread.load(std::memory_order_relaxed) == this_thread(process))
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
    return !leaves(board, rank) && (board.rank(rank).more_members || find_unsure(board, rank));
}

std::string unsure_thread(const Board& board, int rank) {
    const Member* const member = find_unsure(board, rank);
    return member ? "thread " + std::to_string(member->thread) + " of process " + std::to_string(member->pid) : "";
}

void note_resting(const Board& board, int index) {
    RankRecord& rank = board.rank(index);
    const uint32_t process = board.self();
    std::vector<int> waiting;  // in the layer
    bool others = false;
    for (const Member& member : rank.members) {
        if (member.process != process) continue;
        if (member.does == Doing::waits) waiting.push_back(member.thread);
        others = others || member.does == Doing::moves;
    }
    if (!others || !all_rest(waiting)) return;
    ++board.head().moves;
    for (Member& member : rank.members)
        if (member.process == process && member.does == Doing::moves) member.does = Doing::rests;
}

}  // namespace wilkins
