// Waits that nothing can end: the largest set of waiting ranks each of which only a member of the set could wake.
#include "waiting/stuck.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "queue/queue.hpp"
#include "queue/stand_in.hpp"
#include "waiting/circle.hpp"

namespace wilkins {

// Until the task's other ranks are as far, nothing comes of it.
bool leaves(const Board& board, int rank) {
    const RankRecord& record = board.rank(rank);
    if (record.wait != WaitFor::nothing || record.leaving == 0) return false;
    return record.leaving == kNobody || !board.is_over(record.leaving);
}

// A process that died in a wait waits no more; its task may go on with other programs.
bool Waiting::waits(int rank) {
    const RankRecord& record = board_.rank(rank);
    if (record.wait_kind == WaitKind::gives_up && !yielding_) return false;
    return !ended(rank) && record.wait != WaitFor::nothing && !survey_.is_over(record.wait_process) && (unsure_ || !is_unsure(board_, rank));
}

bool is_unsure(const Board& board, int rank) {
    const RankRecord& record = board.rank(rank);
    if (leaves(board, rank)) return false;
    if (record.more_members) return true;
    for (const Member& member : record.members)
        if (member.process != 0 && member.process != record.wait_process && !member.waits && !board.is_over(member.process)) return true;
    return false;
}

// The ranks of the task that do not leave.
std::vector<Ranks> Waiting::staying(int task) const {
    const TaskRecord& record = board_.task(task);
    std::vector<Ranks> found;
    for (int r = record.first_rank; r < record.first_rank + record.nprocs; ++r)
        if (!leaves(r)) found.push_back({r, r});
    return found;
}

// The in-port of which a step is awaited to start the rank's program; -1: none is.
int Waiting::awaited(int rank) const {
    const RankRecord& record = board_.rank(rank);
    return record.wait == WaitFor::nothing ? board_.task(record.task).awaits - 1 : -1;
}

// Has the task of the rank yet to be started, when others have ended? Which, the launcher knows; if none of all that run can, it never is.
bool Waiting::follows(int rank) const {
    const TaskRecord& task = board_.task(board_.rank(rank).task);
    return task.follows && task.state == TaskState::pending;
}

std::vector<Ranks> Waiting::started() const {
    std::vector<Ranks> found;
    for (int t = 0; t < board_.head().tasks; ++t) {
        const TaskRecord& task = board_.task(t);
        if (task.state != TaskState::ended && !(task.follows && task.state == TaskState::pending))
            found.push_back({task.first_rank, task.first_rank + task.nprocs - 1});
    }
    return found;
}

Waiting::Waiting(const Board& board, bool unsure, bool yielding)
    : board_(board),
      survey_(board),
      unsure_(unsure),
      yielding_(yielding),
      hopeless_(static_cast<size_t>(board.head().ranks)),
      by_rank_(static_cast<size_t>(board.head().ranks)),
      of_rank_(static_cast<size_t>(board.head().ranks)),
      of_task_(static_cast<size_t>(board.head().tasks)) {
    const int ranks = board.head().ranks;
    for (int r = 0; r < ranks; ++r)
        if (waits(r) || (!ended(r) && (awaited(r) >= 0 || leaves(r) || follows(r)))) add(r);
    // How many of the ranks below each have not ended, and how many of these wait.
    std::vector<int> alive(1), waiting(1);
    for (int r = 0; r < ranks; ++r) {
        alive.push_back(alive.back() + !ended(r));
        waiting.push_back(waiting.back() + hopeless(r));
    }
    auto count = [](const std::vector<int>& below, const Ranks& some) {
        return below[static_cast<size_t>(some.last) + 1] - below[static_cast<size_t>(some.first)];
    };
    for (size_t w = 0; w < waits_.size(); ++w) {
        Wait& wait = waits_[w];
        int there = 0;
        for (const Ranks& some : wait.on) {
            there += count(alive, some);
            wait.unmoved += count(waiting, some);
        }
        // Every reader that keeps a step must move on. Any producer that can move may bring data, any user of a slot may let go of
        // it; if all have ended, that ends the wait.
        if (wait.needs_all ? wait.unmoved == 0 : wait.unmoved < there || there == 0) wake(w);
        else for (const Ranks& some : wait.on) enter(w, some);
    }
    wake_all_that_can();
    for (size_t w = 0; w < waits_.size(); ++w) {
        if (waits_[w].ended || !has_come(waits_[w].rank)) continue;
        wake(w);
        wake_all_that_can();
    }
}

void Waiting::add(int rank) {
    std::vector<Survey::Need> needs;
    if (follows(rank)) needs.push_back({false, started()});
    else if (const int inport = awaited(rank); inport >= 0) needs.push_back({false, survey_.producers(inport)});
    else if (!leaves(rank)) needs = survey_.needs(rank);
    else if (std::vector<Ranks> others = staying(board_.rank(rank).task); !others.empty()) needs.push_back({true, std::move(others)});
    hopeless_[static_cast<size_t>(rank)] = static_cast<int>(needs.size());
    for (Survey::Need& need : needs) {
        by_rank_[static_cast<size_t>(rank)].push_back(waits_.size());
        waits_.push_back({rank, need.all, 0, std::move(need.ranks)});
    }
}

// Lets the ranks tell the wait when they move.
void Waiting::enter(size_t wait, const Ranks& ranks) {
    const int place = board_.rank(ranks.first).task;
    const TaskRecord& task = board_.task(place);
    if (ranks.first == task.first_rank && ranks.last == task.first_rank + task.nprocs - 1) return of_task_[static_cast<size_t>(place)].push_back(wait);
    for (int r = ranks.first; r <= ranks.last; ++r) of_rank_[static_cast<size_t>(r)].push_back(wait);
}

bool is_kept_for_others(const Board& board) {
    for (int s = 0; s < board.head().slots; ++s)
        if (board.slot(s).kept_for > 0) return true;
    return false;
}

// What a rank waits for may be there, and the rank, or the launcher, has yet to notice.
bool Waiting::has_come(int index) const {
    if (const int inport = awaited(index); inport >= 0) return queue::next_step(board_, inport) >= 0;
    const RankRecord& rank = board_.rank(index);
    // What other hosts wait for is not known here, nor what becomes of steps that programs can see: the writer finds out (see store/step_file.cpp).
    if (rank.wait == WaitFor::memory && (is_kept_for_others(board_) || queue::count_viewed(board_, -1).steps > 0)) return true;
    if (rank.wait != WaitFor::data) return false;
    // A folder: what is waited for is a producer's first file (see store/match.cpp).
    if (const size_t length = strlen(rank.wait_name); length > 0 && rank.wait_name[length - 1] == '/') return false;
    const PortRecord& port = board_.port(rank.wait_port);
    if (rank.wait_kind == WaitKind::polls) return false;
    if (rank.wait_kind == WaitKind::to_end) return !queue::can_produce(board_, rank.wait_port);
    const queue::Found found = queue::find(board_, rank.wait_port, rank.rank, rank.wait_name);
    if (found.slot >= 0 || found.passed || queue::may_stand_in(board_, port, rank.wait_name)) return true;
    // Who asks for the next step, whatever its name, waits for the pattern (see python/steps.cpp).
    return strcmp(rank.wait_name, port.pattern) == 0 && queue::has_choice(board_, rank.wait_port, rank.rank);
}

void Waiting::wake(size_t wait) {
    if (std::exchange(waits_[wait].ended, true)) return;
    if (--hopeless_[static_cast<size_t>(waits_[wait].rank)] == 0) woken_.push_back(waits_[wait].rank);
}

// Wakes those that a rank which can move may wake.
void Waiting::wake_all_that_can() {
    while (!woken_.empty()) {
        const int rank = woken_.back();
        woken_.pop_back();
        for (auto* told : {&of_rank_[static_cast<size_t>(rank)], &of_task_[static_cast<size_t>(board_.rank(rank).task)]}) {
            std::vector<size_t> left;  // those that also need others
            for (const size_t w : *told) {
                Wait& wait = waits_[w];
                --wait.unmoved;
                if (wait.ended) continue;
                if (!wait.needs_all || wait.unmoved == 0) wake(w);
                else left.push_back(w);
            }
            told->swap(left);
        }
    }
}

std::string Waiting::told() const {
    std::string text;
    auto who = [&](int index) {
        return "task '" + std::string(board_.task(board_.rank(index).task).name) + "' rank " + std::to_string(board_.rank(index).rank);
    };
    for (const Wait& wait : waits_) {
        if (wait.ended || !hopeless(wait.rank) || leaves(wait.rank)) continue;
        if (follows(wait.rank)) {
            text += (text.empty() ? "" : "; ") + who(wait.rank) + " waits, to be started, for the end of others ('after')";
            continue;
        }
        const RankRecord& rank = board_.rank(wait.rank);
        const int awaits = awaited(wait.rank);
        const char* what = awaits >= 0                  ? " waits, to be started, for '"
                           : rank.wait == WaitFor::data   ? " waits for '"
                           : rank.wait == WaitFor::room ? " waits for room to create '"
                                                        : " waits for memory to write '";
        text += (text.empty() ? "" : "; ") + who(wait.rank) + what + (awaits >= 0 ? board_.port(awaits).pattern : rank.wait_name) + "' from ";
        bool first = true;
        for (const Ranks& ranks : wait.on) {
            for (int other = ranks.first; other <= ranks.last; ++other) {
                if (!hopeless(other)) continue;
                text += (first ? "" : ", ") + who(other);
                first = false;
            }
        }
    }
    return text;
}

// The hopeless ranks that this one waits for, over others.
std::vector<char> Waiting::reached_from(int rank) const {
    std::vector<char> reached(hopeless_.size());
    std::vector<int> todo = {rank};
    while (!todo.empty()) {
        const int next = todo.back();
        todo.pop_back();
        for (const size_t w : by_rank_[static_cast<size_t>(next)]) {
            if (waits_[w].ended) continue;
            for (const Ranks& some : waits_[w].on)
                for (int r = some.first; r <= some.last; ++r) {
                    char& known = reached[static_cast<size_t>(r)];
                    if (!known && hopeless(r)) known = 1, todo.push_back(r);
                }
        }
    }
    return reached;
}

// Of what is reached from a rank, a circle.
std::vector<char> Waiting::circle_in(std::vector<char> members) const {
    // From a rank that is reached and does not lead back, fewer are reached.
    for (size_t r = 0; r < members.size(); ++r) {
        if (!members[r]) continue;
        std::vector<char> other = reached_from(static_cast<int>(r));
        if (other == members) continue;
        members.swap(other);
        r = SIZE_MAX;  // from the first one again
    }
    return members;
}

std::vector<std::vector<int>> Waiting::circles() const {
    std::vector<std::vector<int>> found;
    std::vector<char> known(hopeless_.size());  // ranks of those found
    for (int from = 0; from < static_cast<int>(hopeless_.size()); ++from) {
        if (!hopeless(from) || known[static_cast<size_t>(from)]) continue;
        std::vector<char> reached = reached_from(from);
        if (!std::equal(reached.begin(), reached.end(), known.begin(), [](char one, char other) { return !one || !other; })) continue;
        const std::vector<char> members = circle_in(std::move(reached));
        found.emplace_back();
        for (size_t r = 0; r < members.size(); ++r) {
            if (!members[r]) continue;
            known[r] = 1;
            found.back().push_back(static_cast<int>(r));
        }
    }
    return found;
}

std::string find_stuck(const Board& board) { return Waiting(board, true, false).told(); }

bool is_stuck(const Board& board, int rank_index) {
    if (board.rank(rank_index).in_vain) return true;
    Waiting waiting(board, is_quiet(board));
    return waiting.hopeless(rank_index) && !may_stretch(board, waiting);
}

}  // namespace wilkins
