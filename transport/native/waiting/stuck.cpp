// Waits that nothing can end: the largest set of waiting ranks each of which only a member of the set could wake.
#include "waiting/stuck.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "board/ranges.hpp"
#include "queue/queue.hpp"
#include "queue/alias.hpp"
#include "waiting/circle.hpp"

namespace wilkins {

namespace {

bool waits_at_all(const RankRecord& rank) {
    return std::any_of(std::begin(rank.waits), std::end(rank.waits),
                       [](const WaitRecord& wait) { return wait.what != WaitFor::nothing; });
}

}  // namespace

// A process that died in a wait waits no more; its task may go on with other programs.
bool Waiting::waits(int rank) {
    if (ended(rank) || (who_ == Waits::known && is_unsure(board_, rank))) return false;
    bool found = false;
    for (const WaitRecord& wait : board_.rank(rank).waits) {
        if (wait.what == WaitFor::nothing || survey_.is_over(wait.process)) continue;
        if (wait.kind == WaitKind::gives_up && !yielding_) return false;
        found = true;
    }
    return found;
}

// True if it is taken to wait for others of its task. One of them has to wait, or nothing would be known of what all of
// them do.
bool Waiting::is_among(int rank) const {
    if (ended(rank) || leaves(rank)) return false;
    const RankRecord& record = board_.rank(rank);
    const TaskRecord& task = board_.task(record.task);
    if (task.state != TaskState::running || task.nprocs < 2) return false;
    if (waits_at_all(record)) return false;
    const Row<RankRecord> ranks = ranks_of(board_, task);
    if (std::none_of(ranks.begin(), ranks.end(), waits_at_all)) return false;
    if (who_ == Waits::tasks) return true;
    return is_among_ranks(board_, rank, who_ == Waits::known ? kAmongNs : 0) &&
           (who_ != Waits::known || !is_unsure(board_, rank));
}

std::vector<Ranks> Waiting::others(int rank) const {
    std::vector<Ranks> found;
    const TaskRecord& task = board_.task(board_.rank(rank).task);
    if (rank > task.first_rank) found.push_back({task.first_rank, rank - 1});
    if (rank < task.first_rank + task.nprocs - 1) found.push_back({rank + 1, task.first_rank + task.nprocs - 1});
    return found;
}

// The ranks of the task that do not leave.
std::vector<Ranks> Waiting::staying(int task) const {
    std::vector<Ranks> found;
    for (const RankRecord& rank : ranks_of(board_, board_.task(task)))
        if (const int r = board_.index(rank); !leaves(r)) found.push_back({r, r});
    return found;
}

// The in-port of which a step is awaited to start the rank's program; -1: none is.
int Waiting::awaited(int rank) const {
    const RankRecord& record = board_.rank(rank);
    for (const WaitRecord& wait : record.waits)
        if (wait.what != WaitFor::nothing) return -1;
    return board_.task(record.task).awaits - 1;
}

// True if the task of the rank is yet to be started, when others have ended. The launcher knows which; if nothing that
// runs can end, it never is.
bool Waiting::follows(int rank) const {
    const TaskRecord& task = board_.task(board_.rank(rank).task);
    return task.follows && task.state == TaskState::pending;
}

std::vector<Ranks> Waiting::started() const {
    std::vector<Ranks> found;
    for (const TaskRecord& task : tasks_of(board_))
        if (task.state != TaskState::ended && !(task.follows && task.state == TaskState::pending))
            found.push_back({task.first_rank, task.first_rank + task.nprocs - 1});
    return found;
}

Waiting::Waiting(const Board& board, Waits waits, bool yielding, bool views_last)
    : board_(board),
      survey_(board),
      who_(waits),
      yielding_(yielding),
      views_last_(views_last),
      hopeless_(static_cast<size_t>(board.head().ranks)),
      by_rank_(static_cast<size_t>(board.head().ranks)),
      of_rank_(static_cast<size_t>(board.head().ranks)),
      of_task_(static_cast<size_t>(board.head().tasks)) {
    const int ranks = board.head().ranks;
    for (int r = 0; r < ranks; ++r)
        if (this->waits(r) || (!ended(r) && (awaited(r) >= 0 || leaves(r) || follows(r) || is_among(r)))) add(r);
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
        // Every reader that keeps a step must move on. Any producer that can move may bring data, any user of a slot
        // may let go of it; if all have ended, that ends the wait.
        if (wait.needs_all ? wait.unmoved == 0 : wait.unmoved < there || there == 0) wake(w);
        else
            for (const Ranks& some : wait.on) enter(w, some);
    }
    wake_all_that_can();
    for (size_t w = 0; w < waits_.size(); ++w) {
        if (waits_[w].ended || !has_come(waiter_of(waits_[w]))) continue;
        wake(w);
        wake_all_that_can();
    }
}

void Waiting::add(int rank) {
    hopeless_[static_cast<size_t>(rank)] = 1;
    if (follows(rank)) return add(rank, nullptr, {{false, started()}});
    if (const int inport = awaited(rank); inport >= 0) return add(rank, nullptr, {{false, survey_.producers(inport)}});
    if (leaves(rank)) {
        std::vector<Ranks> others = staying(board_.rank(rank).task);
        return others.empty() ? add(rank, nullptr, {}) : add(rank, nullptr, {{true, std::move(others)}});
    }
    if (is_among(rank)) return add(rank, nullptr, {{false, others(rank)}});
    each_wait(board_.rank(rank), [&](const WaitRecord& wait) {
        if (survey_.is_over(wait.process)) return;
        const bool any = views_last_ && wait.what == WaitFor::memory;
        add(rank, &wait, any ? std::vector<Survey::Need>{{false, started()}} : survey_.needs(rank, wait));
    });
}

void Waiting::add(int rank, const WaitRecord* record, std::vector<Survey::Need> needs) {
    if (needs.empty()) hopeless_[static_cast<size_t>(rank)] = 0;
    for (Survey::Need& need : needs) {
        by_rank_[static_cast<size_t>(rank)].push_back(waits_.size());
        waits_.push_back({waiters_.size(), need.all, 0, std::move(need.ranks)});
    }
    waiters_.push_back({rank, record, static_cast<int>(needs.size())});
}

// Lets the ranks tell the wait when they move.
void Waiting::enter(size_t wait, const Ranks& ranks) {
    const int place = board_.rank(ranks.first).task;
    const TaskRecord& task = board_.task(place);
    if (ranks.first == task.first_rank && ranks.last == task.first_rank + task.nprocs - 1)
        return of_task_[static_cast<size_t>(place)].push_back(wait);
    for (int r = ranks.first; r <= ranks.last; ++r) of_rank_[static_cast<size_t>(r)].push_back(wait);
}

bool is_kept_for_others(const Board& board) {
    for (const SlotRecord& slot : slots_of(board))
        if (slot.kept_for > 0) return true;
    return false;
}

// True if a producer of the in-port has left a file to processes that still write it, or from which the launcher will
// take it.
bool is_left_to_others(const Board& board, int inport) {
    if (!board.head().leaves.load()) return false;
    for (const SlotRecord& slot : slots_of(board)) {
        if (slot.state != SlotState::writing || !slot.inherited.load()) continue;
        const PortRecord& out = board.port(board.source(slot.source).port);
        for (const ChannelRecord& channel : channels_of(board, out))
            if (channel.inport == inport) return true;
    }
    return false;
}

// What a rank waits for may be there, and the rank, or the launcher, has yet to notice.
bool Waiting::has_come(const Waiter& waiter) const {
    if (const int inport = awaited(waiter.rank); inport >= 0) return queue::next_step(board_, inport) >= 0;
    if (!waiter.record) return false;
    const int rank = board_.rank(waiter.rank).rank;
    const WaitRecord& wait = *waiter.record;
    // What other hosts wait for is not known here, nor what becomes of steps that programs can see: the writer finds
    // out (see steps/step_file.cpp).
    if (wait.what == WaitFor::memory &&
        (is_kept_for_others(board_) || (!views_last_ && queue::count_viewed(board_, -1).steps > 0)))
        return true;
    if (wait.what != WaitFor::data) return false;
    if (is_left_to_others(board_, wait.port)) return true;
    // A folder: what is waited for is a producer's first file (see names/match.cpp).
    if (const size_t length = strlen(wait.name); length > 0 && wait.name[length - 1] == '/') return false;
    const PortRecord& port = board_.port(wait.port);
    if (wait.kind == WaitKind::polls) return false;
    if (wait.kind == WaitKind::to_end) return !queue::can_produce(board_, wait.port);
    const queue::Found found = queue::find(board_, wait.port, rank, wait.name);
    if (found.slot >= 0 || found.passed || queue::may_be_alias(board_, port, wait.name)) return true;
    // Who asks for the next step, whatever its name, waits for the pattern (see python/steps.cpp).
    return strcmp(wait.name, port.pattern) == 0 && queue::has_choice(board_, wait.port, rank);
}

void Waiting::wake(size_t wait) {
    if (std::exchange(waits_[wait].ended, true)) return;
    Waiter& waiter = waiters_[waits_[wait].waiter];
    if (--waiter.lacking == 0 && std::exchange(hopeless_[static_cast<size_t>(waiter.rank)], char{0}))
        woken_.push_back(waiter.rank);
}

// Wakes those that a rank which can move may wake.
void Waiting::wake_all_that_can() {
    while (!woken_.empty()) {
        const int rank = woken_.back();
        woken_.pop_back();
        for (auto* waiters :
             {&of_rank_[static_cast<size_t>(rank)], &of_task_[static_cast<size_t>(board_.rank(rank).task)]}) {
            std::vector<size_t> left;  // those that also need others
            for (const size_t w : *waiters) {
                Wait& wait = waits_[w];
                --wait.unmoved;
                if (wait.ended) continue;
                if (!wait.needs_all || wait.unmoved == 0) wake(w);
                else left.push_back(w);
            }
            waiters->swap(left);
        }
    }
}

bool Waiting::any() const {
    return std::any_of(hopeless_.begin(), hopeless_.end(), [](char hopeless) { return hopeless != 0; });
}

std::string Waiting::description() const {
    std::string text;
    auto who = [&](int index) {
        return "task '" + std::string(board_.task(board_.rank(index).task).name) + "' rank " +
               std::to_string(board_.rank(index).rank);
    };
    for (const Wait& wait : waits_) {
        const Waiter& waiter = waiter_of(wait);
        if (wait.ended || !hopeless(waiter.rank) || leaves(waiter.rank)) continue;
        if (follows(waiter.rank)) {
            text += (text.empty() ? "" : "; ") + who(waiter.rank) +
                    " waits, to be started, for the end of others ('after')";
            continue;
        }
        const int awaits = awaited(waiter.rank);
        if (awaits < 0 && !waiter.record) continue;  // who waits for one of its own task brings nothing new
        const WaitFor waits = waiter.record ? waiter.record->what : WaitFor::data;
        const char* what = awaits >= 0              ? " waits, to be started, for '"
                           : waits == WaitFor::data ? " waits for '"
                           : waits == WaitFor::room ? " waits for room to create '"
                                                    : " waits for memory to write '";
        text += (text.empty() ? "" : "; ") + who(waiter.rank) + what +
                (awaits >= 0 ? board_.port(awaits).pattern : waiter.record->name) + "' from ";
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
        if (!std::equal(reached.begin(), reached.end(), known.begin(),
                        [](char one, char other) { return !one || !other; }))
            continue;
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

std::string find_stuck(const Board& board) { return Waiting(board, Waits::threads, false).description(); }

bool is_stuck(const Board& board, int rank) {
    bool found_nothing = false;
    each_wait(board.rank(rank), [&](const WaitRecord& wait) { found_nothing = found_nothing || wait.found_nothing; });
    if (found_nothing) return true;
    Waiting waiting(board, is_quiet(board) ? Waits::threads : Waits::known);
    return waiting.hopeless(rank) && !may_stretch(board, waiting);
}

}  // namespace wilkins
