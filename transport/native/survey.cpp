// Finds what waiting ranks wait for.
#include "survey.hpp"

#include <algorithm>
#include <set>

#include "queue_parts.hpp"
#include "resting.hpp"

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

Survey::Survey(const Board& board)
    : board_(board), reach_(static_cast<size_t>(board.head().channels)), opened_(static_cast<size_t>(board.head().ports)) {
    for (int r = 0; r < board.head().ranks; ++r)
        queue::each_hold(board, r, [&](int32_t held, uint32_t process) { holds_.push_back({held, r, process}); });
    std::stable_sort(holds_.begin(), holds_.end(), [](const Hold& one, const Hold& other) { return one.slot < other.slot; });
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
    for (int k = 0; k < port.links; ++k) {
        const ChannelRecord& channel = board_.channel(board_.link(port, k));
        for (int s = 0; s < board_.port(channel.outport).sources; ++s)
            for (int r = 0; r < channel.readers; ++r)
                if (board_.mark(channel, s, r).opened > 0) (*known)[static_cast<size_t>(r)] = 1;
    }
    return *known;
}

const Survey::Reach& Survey::reach_of(int index) {
    auto& known = reach_[static_cast<size_t>(index)];
    if (known) return *known;
    const ChannelRecord& channel = board_.channel(index);
    const auto readers = static_cast<size_t>(channel.readers);
    known.emplace(Reach{std::vector<uint64_t>(readers), std::vector<char>(readers)});
    for (int s = 0; s < board_.port(channel.outport).sources; ++s)
        for (size_t r = 0; r < readers; ++r)
            known->farthest[r] = std::max(known->farthest[r], board_.mark(channel, s, static_cast<int>(r)).next);
    if (channel.in_part)
        for (size_t r = 0; r < readers; ++r) known->stands_by[r] = !opened(channel.inport)[r];
    return *known;
}

// As queue::reach.
uint64_t Survey::reached(int index, int source, int reader) {
    const ChannelRecord& channel = board_.channel(index);
    const Reach& reach = reach_of(index);
    if (reach.stands_by[static_cast<size_t>(reader)]) return UINT64_MAX;
    const Mark& own = board_.mark(channel, source, reader);
    return queue::follows(board_, channel, own) ? reach.farthest[static_cast<size_t>(reader)] : own.next;
}

uint64_t Survey::lowest(int index, int source) {
    uint64_t low = UINT64_MAX;
    for (int r = 0; r < board_.channel(index).readers; ++r) low = std::min(low, reached(index, source, r));
    return low;
}

uint64_t Survey::queued(int index) {
    const ChannelRecord& channel = board_.channel(index);
    if (!queue::alive(board_, channel)) return 0;
    uint64_t found = 0;
    for (int s = 0; s < board_.port(channel.outport).sources; ++s)
        found += static_cast<uint64_t>(queue::queued_from(board_, channel, s, lowest(index, s)));
    return found;
}

uint64_t Survey::held(int index) {
    if (!held_) {
        held_.emplace();
        std::set<std::pair<int, int>> known;  // slots and tasks
        for (const Hold& hold : holds_) {
            const int task = board_.rank(hold.rank).task;
            if (known.insert({hold.slot, task}).second) ++(*held_)[{board_.source(board_.slot(hold.slot).source).port, task}];
        }
    }
    const ChannelRecord& channel = board_.channel(index);
    const auto found = held_->find({channel.outport, board_.port(channel.inport).task});
    return found == held_->end() ? 0 : found->second;
}

bool Survey::full(int index, int source, const char* name) {
    const ChannelRecord& channel = board_.channel(index);
    if (!queue::bounds(board_, channel, source, name)) return false;
    const int found = queue::alive(board_, channel) ? queue::queued_from(board_, channel, source, lowest(index, source)) : 0;
    return found >= queue::bound(board_, channel);
}

bool Survey::has_room(int source_index, const char* name) {
    const SourceRecord& source = board_.source(source_index);
    const PortRecord& port = board_.port(source.port);
    for (int k = 0; k < port.links; ++k)
        if (full(board_.link(port, k), queue::place_in_port(board_, source), name)) return false;
    return true;
}

bool Survey::needed(const SlotRecord& slot) {
    return queue::needed_by(board_, slot, true, [this](int index, int source, int reader) {
        const Reach& reach = reach_of(index);
        if (reach.stands_by[static_cast<size_t>(reader)]) return UINT64_MAX;
        const Mark& own = board_.mark(board_.channel(index), source, reader);
        const uint64_t most = reach.farthest[static_cast<size_t>(reader)];
        if (!queue::follows(board_, board_.channel(index), own)) return own.next;
        return most > 0 ? most - 1 : 0;
    });
}

template <class Visit>
void Survey::each_hold(int slot, Visit visit) const {
    auto hold = std::lower_bound(holds_.begin(), holds_.end(), slot, [](const Hold& one, int index) { return one.slot < index; });
    for (; hold != holds_.end() && hold->slot == slot; ++hold) visit(*hold);
}

// A hold that is let go as soon as somebody who needs it looks (see sweep_dead_readers).
bool Survey::held_by_dead(int slot) {
    bool found = false;
    each_hold(slot, [&](const Hold& hold) { found = found || is_over(hold.process); });
    return found;
}

// Readers whose marks keep the waiting producer from creating another step.
void Survey::add_blockers(const RankRecord& rank, std::vector<int>& to) {
    const PortRecord& port = board_.port(rank.wait_port);
    for (int k = 0; k < port.links; ++k) {
        const int index = board_.link(port, k);
        if (!full(index, rank.rank, rank.wait_name)) continue;
        const ChannelRecord& channel = board_.channel(index);
        const TaskRecord& reader = board_.task(board_.port(channel.inport).task);
        const uint64_t low = lowest(index, rank.rank);
        for (int r = 0; r < channel.readers; ++r)
            if (reached(index, rank.rank, r) == low) to.push_back(reader.first_rank + r);
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
    for (int k = 0; k < port.links; ++k) {
        const int link = board_.link(port, k);
        const ChannelRecord& channel = board_.channel(link);
        if (!board_.on(slot, channel.place)) continue;
        const TaskRecord& reader = board_.task(board_.port(channel.inport).task);
        for (int r = 0; r < channel.readers; ++r)
            if (reached(link, source.rank, r) <= slot.sequence + 1) to.push_back(reader.first_rank + r);
    }
}

// Users of the slots of a source; none if one of them can be used, which its writer has only to notice.
std::vector<int> Survey::users_of_source(int source) {
    std::vector<int> users;
    const SourceRecord& record = board_.source(source);
    for (int s = record.first_slot; s < record.first_slot + record.slots; ++s) {
        if (held_by_dead(s) || (!needed(board_.slot(s)) && board_.slot(s).peers == 0)) return {};
        add_users(s, users);
    }
    return users;
}

void Survey::find_users_of_memory() {
    has_users_ = true;
    users_.resize(static_cast<size_t>(board_.head().ranks));
    for (int s = 0; s < board_.head().slots; ++s) {
        const SlotRecord& slot = board_.slot(s);
        if (held_by_dead(s)) held_by_dead_.push_back(s);
        else if (!needed(slot) && slot.peers == 0) continue;
        std::vector<int> users;
        add_users(s, users);
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
    for (int k = 0; k < port.links; ++k) {
        const TaskRecord& task = board_.task(board_.port(board_.channel(board_.link(port, k)).outport).task);
        if (task.nprocs > 0) found.push_back({task.first_rank, task.first_rank + task.nprocs - 1});
    }
    return found;
}

std::vector<Ranks> Survey::waits_on(int index) {
    const RankRecord& rank = board_.rank(index);
    std::vector<int> on;
    if (rank.wait == WaitFor::room) {
        add_blockers(rank, on);
        if (on.empty()) on = users_of_source(board_.port(rank.wait_port).first_source + rank.rank);
    } else if (rank.wait == WaitFor::memory) {
        on = users_of_memory(index);
    } else if (rank.wait == WaitFor::data) {
        return producers(rank.wait_port);
    }
    return joined(on);
}

}  // namespace wilkins
