// Finds what waiting ranks wait for.
#include "waiting/survey.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "queue/parts.hpp"
#include "queue/closed.hpp"

namespace wilkins {

namespace {

// In order, each once.
std::vector<Ranks> joined(std::vector<int>& ranks) {
    std::sort(ranks.begin(), ranks.end());
    std::vector<Ranks> found;
    for (const int rank : ranks) {
        if (!found.empty() && rank <= found.back().last + 1) found.back().last = rank;
        else found.push_back({rank, rank});
    }
    return found;
}

}  // namespace

Survey::Survey(const Board& board) : board_(board), opened_(static_cast<size_t>(board.head().ports)) {
    for (RankRecord& rank : ranks_of(board))
        queue::each_hold(board, rank,
                         [&](int32_t held, uint32_t process) { holds_.push_back({held, board.index(rank), process}); });
    std::sort(holds_.begin(), holds_.end(), [](const Hold& one, const Hold& other) {
        return std::tie(one.slot, one.rank, one.process) < std::tie(other.slot, other.rank, other.process);
    });
}

bool Survey::is_over(uint32_t process) {
    const auto known = over_.find(process);
    if (known != over_.end()) return known->second;
    return over_[process] = board_.is_over(process);
}

// Which ranks of the in-port's task have opened a step on it since their last start (see queue::has_opened).
const std::vector<char>& Survey::opened(int inport) {
    auto& known = opened_[static_cast<size_t>(inport)];
    if (known) return *known;
    const PortRecord& port = board_.port(inport);
    known.emplace(static_cast<size_t>(board_.task(port.task).nprocs));
    for (const ChannelRecord& channel : channels_of(board_, port))
        for (const SourceRecord& source : sources_of(board_, channel))
            for (int r = 0; r < channel.readers; ++r)
                if (board_.mark(channel, source.rank, r).opened > 0) (*known)[static_cast<size_t>(r)] = 1;
    return *known;
}

// As the function of that name for a rank of the channel's task.
bool Survey::is_idle(int index, int reader) {
    const ChannelRecord& channel = board_.channel(index);
    return channel.in_part && !opened(channel.inport)[static_cast<size_t>(reader)];
}

uint64_t Survey::queued(int index) {
    const ChannelRecord& channel = board_.channel(index);
    if (!queue::alive(board_, channel)) return 0;
    uint64_t found = 0;
    for (const SourceRecord& source : sources_of(board_, channel))
        found += static_cast<uint64_t>(queue::count_queued(board_, channel, source.rank, [&](int reader) {
                                           return is_idle(index, reader);
                                       }).waiting);
    return found;
}

std::string Survey::next(int index) {
    const ChannelRecord& channel = board_.channel(index);
    if (!queue::alive(board_, channel)) return "";
    const bool ordered = in_order(board_.port(channel.inport));
    const SlotRecord* first = nullptr;
    for (const SourceRecord& source : sources_of(board_, channel))
        queue::each_queued(
            board_, channel, source.rank, [&](int reader) { return is_idle(index, reader); },
            [&](const SlotRecord& slot) {
                if (!ordered && queue::is_consumed(board_, channel, source.rank, slot)) return;
                if (!first || slot.published_stamp < first->published_stamp) first = &slot;
            });
    return first ? first->name : "";
}

uint64_t Survey::held(int index) {
    if (!held_) {
        held_.emplace();
        std::set<std::pair<int, int>> known;  // slots and tasks
        for (const Hold& hold : holds_) {
            const int task = board_.rank(hold.rank).task;
            if (known.insert({hold.slot, task}).second)
                ++(*held_)[{board_.source(board_.slot(hold.slot).source).port, task}];
        }
    }
    const ChannelRecord& channel = board_.channel(index);
    const auto found = held_->find({channel.outport, board_.port(channel.inport).task});
    return found == held_->end() ? 0 : found->second;
}

bool Survey::full(int index, int source, const char* name) {
    const ChannelRecord& channel = board_.channel(index);
    if (!queue::is_for(board_, channel, source, name) || !queue::alive(board_, channel)) return false;
    return queue::fills(board_, channel, queue::count_queued(board_, channel, source, [&](int reader) {
                            return is_idle(index, reader);
                        }));
}

std::vector<int> Survey::full_channels(const RankRecord& rank, const WaitRecord& wait) {
    std::vector<int> found;
    const PortRecord& port = board_.port(wait.port);
    for (const ChannelRecord& channel : channels_of(board_, port))
        if (full(board_.index(channel), rank.rank, wait.name)) found.push_back(board_.index(channel));
    return found;
}

bool Survey::needed(const SlotRecord& slot) {
    return queue::needed_by(board_, slot, true, [this](const ChannelRecord& channel, int reader) {
        return is_idle(board_.index(channel), reader);
    });
}

template <class Visit>
void Survey::each_hold(int slot, Visit visit) const {
    auto hold = std::lower_bound(holds_.begin(), holds_.end(), slot,
                                 [](const Hold& one, int index) { return one.slot < index; });
    for (; hold != holds_.end() && hold->slot == slot; ++hold) visit(*hold);
}

// A hold that is let go as soon as somebody who needs it looks (see sweep_dead_readers).
bool Survey::held_by_dead(int slot) {
    bool found = false;
    each_hold(slot, [&](const Hold& hold) { found = found || is_over(hold.process); });
    return found;
}

// Readers that have yet to turn to a step for which a full channel has no room for another one.
void Survey::add_blockers(int index, int source, std::vector<int>& to) {
    const ChannelRecord& channel = board_.channel(index);
    const PortRecord& inport = board_.port(channel.inport);
    uint64_t low = UINT64_MAX;  // in order, only those that are farthest behind
    for (int r = 0; r < channel.readers; ++r)
        if (!is_idle(index, r)) low = std::min(low, board_.mark(channel, source, r).next);
    const SourceRecord& record = board_.source(board_.port(channel.outport), source);
    for (int r = 0; r < channel.readers; ++r) {
        if (is_idle(index, r)) continue;
        bool blocks = in_order(inport) && board_.mark(channel, source, r).next == low;
        if (!in_order(inport))
            for (const SlotRecord& slot : steps_of(board_, channel, record))
                blocks = blocks || !queue::is_done(board_, channel, source, r, slot);
        if (blocks) to.push_back(board_.task(inport.task).first_rank + r);
    }
}

// Ranks that may have to do with it that the slot's memory cannot be used again: rather too many than too few.
void Survey::add_users(int index, std::vector<int>& to) {
    const SlotRecord& slot = board_.slot(index);
    if (queue::unfinished(slot)) to.push_back(slot.writer);
    each_hold(index, [&](const Hold& hold) { to.push_back(hold.rank); });
    if (slot.state != SlotState::published) return;
    const SourceRecord& source = board_.source(slot.source);
    const PortRecord& port = board_.port(source.port);
    for (const ChannelRecord& channel : channels_of(board_, port)) {
        if (!board_.on(slot, channel.place)) continue;
        const TaskRecord& reader = board_.task(board_.port(channel.inport).task);
        for (int r = 0; r < channel.readers; ++r)
            if (board_.mark(channel, source.rank, r).last == slot.sequence + 1 ||
                (!is_idle(board_.index(channel), r) && !queue::is_done(board_, channel, source.rank, r, slot)))
                to.push_back(reader.first_rank + r);
    }
}

// Users of the slots of a source; none if one of them can be used, which its writer has only to notice.
std::vector<int> Survey::users_of_source(int source) {
    std::vector<int> users;
    const SourceRecord& record = board_.source(source);
    for (const SlotRecord& slot : slots_of(board_, record)) {
        const int index = board_.index(slot);
        if (held_by_dead(index) || (!needed(slot) && !queue::is_attached(slot))) return {};
        add_users(index, users);
    }
    return users;
}

void Survey::find_users_of_memory() {
    has_users_ = true;
    users_.resize(static_cast<size_t>(board_.head().ranks));
    for (const SlotRecord& slot : slots_of(board_)) {
        const int index = board_.index(slot);
        if (held_by_dead(index)) held_by_dead_.push_back(index);
        else if (!needed(slot) && !queue::is_attached(slot)) continue;
        std::vector<int> users;
        add_users(index, users);
        for (const int rank : users) ++users_[static_cast<size_t>(rank)];
        if (!queue::unfinished(slot)) continue;
        auto& own = users_of_own_[slot.writer];
        own.insert(own.end(), users.begin(), users.end());
    }
}

// Users of what the whole run has in memory but for what the rank itself is writing; none as above.
std::vector<int> Survey::users_of_memory(int index) {
    if (!has_users_) find_users_of_memory();
    for (const int s : held_by_dead_)
        if (!queue::unfinished(board_.slot(s)) || board_.slot(s).writer != index) return {};
    const auto own = users_of_own_.find(index);
    const std::vector<int> none;
    for (const int rank : own == users_of_own_.end() ? none : own->second) --users_[static_cast<size_t>(rank)];
    std::vector<int> users;
    for (size_t r = 0; r < users_.size(); ++r)
        if (users_[r] > 0) users.push_back(static_cast<int>(r));
    for (const int rank : own == users_of_own_.end() ? none : own->second) ++users_[static_cast<size_t>(rank)];
    return users;
}

std::vector<Ranks> Survey::producers(int inport) const {
    std::vector<Ranks> found;
    const PortRecord& port = board_.port(inport);
    for (const PortRecord& out : outports_of(board_, port)) {
        const TaskRecord& task = board_.task(out.task);
        if (task.nprocs > 0) found.push_back({task.first_rank, task.first_rank + task.nprocs - 1});
    }
    return found;
}

std::vector<Survey::Need> Survey::needs(int index, const WaitRecord& wait) {
    const RankRecord& rank = board_.rank(index);
    std::vector<int> on;
    if (wait.what == WaitFor::data) return {{false, producers(wait.port)}};
    if (wait.what == WaitFor::memory) {
        on = users_of_memory(index);
        return {{false, joined(on)}};
    }
    // Every reader that keeps a step must move on where steps go in order; elsewhere any that opens one makes room.
    std::vector<Need> found;
    for (const int full : full_channels(rank, wait)) {
        on.clear();
        add_blockers(full, rank.rank, on);
        found.push_back({in_order(board_.port(board_.channel(full).inport)), joined(on)});
    }
    if (!found.empty()) return found;
    on = users_of_source(board_.port(wait.port).first_source + rank.rank);
    return {{false, joined(on)}};
}

std::vector<Ranks> Survey::waits_on(int index, const WaitRecord& wait) {
    std::vector<Need> found = needs(index, wait);
    if (found.size() == 1) return found[0].ranks;
    std::vector<int> on;
    for (const Need& need : found)
        for (const Ranks& some : need.ranks)
            for (int r = some.first; r <= some.last; ++r) on.push_back(r);
    return joined(on);
}

}  // namespace wilkins
