// Takes facts from the board.
#include "python/report.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "board/ahead.hpp"
#include "board/ranges.hpp"
#include "events.hpp"
#include "python/json.hpp"
#include "queue/alias.hpp"
#include "queue/failed_opens.hpp"
#include "waiting/members.hpp"
#include "waiting/stuck.hpp"
#include "waiting/survey.hpp"

namespace wilkins {

namespace {

bool waits_now(const RankRecord& rank) {
    return std::any_of(std::begin(rank.waits), std::end(rank.waits),
                       [](const WaitRecord& wait) { return wait.what != WaitFor::nothing; });
}

// By tasks: each within one.
std::vector<facts::Whom> by_task(const Board& board, const std::vector<Ranks>& ranks) {
    std::vector<facts::Whom> whom;
    for (const Ranks& some : ranks) {
        for (int first = some.first; first <= some.last;) {
            const RankRecord& rank = board.rank(first);
            const TaskRecord& task = board.task(rank.task);
            const int last = std::min(some.last, task.first_rank + task.nprocs - 1);
            whom.push_back({rank.task, rank.rank, last - task.first_rank});
            first = last + 1;
        }
    }
    return whom;
}

facts::TaskFacts task_facts(const Board& board, Survey& survey, int index, int64_t now, bool threads) {
    const TaskRecord& record = board.task(index);
    const auto since = [&](int64_t then) { return facts::Nanoseconds{static_cast<uint64_t>(now - then)}; };
    facts::TaskFacts task;
    task.name = record.name;
    task.nprocs = record.nprocs;
    task.state = record.state;
    task.starts = record.starts;
    task.met_failure = record.met_failure != 0;
    task.failed_open = failed_open(board, index);
    for (int k = 0; k < kUnmatchedNames; ++k)
        if (const UnmatchedName& place = board.unmatched_names(index)[k]; place.whole.load(std::memory_order_acquire))
            task.unmatched_names.push_back({place.name, place.uses});
    for (RankRecord& rank : ranks_of(board, record)) {
        const int r = board.index(rank);
        task.waiting_s.count += rank.waiting_ns.load();
        task.copying_s.count += rank.copying_ns.load();
        task.moved_bytes += rank.moved_bytes.load();
        if (const int64_t began = rank.flush_since; began != 0 && !waits_now(rank))
            task.flushes.push_back({rank.rank, rank.flush_pid, rank.flush_port, since(began)});
        if (const EmptyLooks& empty_looks = rank.empty_looks; empty_looks.looks > 0 && empty_looks.files == rank.files)
            task.polls.push_back({rank.rank, empty_looks.port, empty_looks.name, empty_looks.looks,
                                  since(empty_looks.since), empty_looks.lists != 0});
        if (leaves(board, r)) task.leaving.push_back(rank.rank);
        if (!waits_now(rank)) {
            if (threads && is_among_ranks(board, r, kAmongNs) && !is_unsure(board, r)) task.among.push_back(rank.rank);
            continue;
        }
        const bool unsure = threads && is_unsure(board, r);
        each_wait(rank, [&](const WaitRecord& wait) {
            task.waiting_s.count += since(wait.since).count;
            const bool strange = wait.what == WaitFor::data && strcmp(wait.name, board.port(wait.port).pattern) != 0 &&
                                 queue::is_strange(board, board.port(wait.port), wait.name);
            task.waits.push_back({rank.rank, wait.pid, wait.what, wait.port, wait.name, since(wait.since), strange,
                                  wait.kind == WaitKind::gives_up, unsure, by_task(board, survey.waits_on(r, wait))});
        });
    }
    if (const int awaited = record.awaits - 1; awaited >= 0 && record.state != TaskState::ended && task.waits.empty())
        task.waits.push_back({0, 0, WaitFor::data, awaited, board.port(awaited).pattern, since(record.awaits_since),
                              false, false, false, by_task(board, survey.producers(awaited))});
    return task;
}

facts::PortFacts port_facts(const Board& board, const PortRecord& record) {
    facts::PortFacts port;
    port.task = record.task;
    port.direction = record.direction;
    port.pattern = record.pattern;
    port.steps = record.steps;
    port.bytes = record.bytes;
    for (const ChannelRecord& channel : channels_of(board, record)) port.dropped += channel.dropped;
    for (const SourceRecord& source : sources_of(board, record)) {
        port.names += source.different;
        port.left += source.left.load();
        port.brought += source.asked.load();
    }
    port.reopened = record.reopened;
    port.shared = record.shared;
    port.unseen = record.unseen;
    port.touched = record.touched != 0;
    port.shown_a_part = record.listed_to > 0 && !record.listed_whole;
    port.waits_first = record.keys.first == First::wait;
    port.waits_looks = record.keys.looks == Looks::wait;
    port.alias_state = record.alias_state;
    port.alias = record.alias;
    port.found_nothing = record.found_nothing;
    port.again = record.again != 0;
    port.only_looks = record.only_looks != 0;
    port.asked = record.missing_name;
    port.begun_in = record.begun_in;
    port.lost_changes = is_logged(record, Once::lost_changes);
    port.not_found = record.not_found;
    port.not_found_printed = record.not_found_printed;
    port.not_found_path = record.not_found_path;
    port.not_found_in = record.not_found_in;
    return port;
}

facts::ChannelFacts channel_facts(const Board& board, Survey& survey, const ChannelRecord& record) {
    const int c = board.index(record);
    facts::ChannelFacts channel;
    channel.outport = record.outport;
    channel.inport = record.inport;
    channel.every = record.every;
    channel.offset = record.offset;
    channel.queued = survey.queued(c);
    channel.published = record.published;
    channel.read = record.read;
    channel.skipped = record.skipped;
    channel.dropped = record.dropped;
    channel.let_go = record.let_go;
    channel.newer = record.newer;
    channel.held = survey.held(c);
    channel.waits = record.when_full == WhenFull::block;
    channel.reached.resize(static_cast<size_t>(record.readers));
    for (const SourceRecord& source : sources_of(board, record))
        for (int r = 0; r < record.readers; ++r) {
            uint64_t& most = channel.reached[static_cast<size_t>(r)];
            most = std::max(most, board.mark(record, source.rank, r).next);
        }
    channel.next = survey.next(c);
    return channel;
}

facts::Report take_facts(const Board& board, bool threads) {
    facts::Report report;
    Survey survey(board);
    const BoardRecord& head = board.head();
    const int64_t now = now_ns();
    for (int t = 0; t < head.tasks; ++t) report.tasks.push_back(task_facts(board, survey, t, now, threads));
    for (const PortRecord& port : ports_of(board)) report.ports.push_back(port_facts(board, port));
    for (const ChannelRecord& channel : channels_of(board))
        report.channels.push_back(channel_facts(board, survey, channel));
    report.memory_bytes = head.memory + ahead::held(board, -1);
    report.memory_peak_bytes = std::max(head.memory_peak, report.memory_bytes);
    report.trace_stopped = head.trace_stopped != 0;
    return report;
}

}  // namespace

std::optional<facts::FailedOpen> failed_open(const Board& board, int task) {
    const FailedOpen* const open = queue::last_failed_open(board, task);
    if (!open) return std::nullopt;
    return facts::FailedOpen{open->port,  open->name,    open->sought.load(),  open->steps,
                             open->opens, open->process, open->went_on.load(), open->then};
}

std::string report(const Board& board, Board::Lock& lock, bool threads) {
    lock.write_events();
    const facts::Report facts = take_facts(board, threads);
    lock.release();
    return as_json(facts);
}

}  // namespace wilkins
