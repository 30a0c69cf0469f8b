// Takes facts from the board and words them.
#include "python/report.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "board/ahead.hpp"
#include "board/ranges.hpp"
#include "queue/stand_in.hpp"
#include "queue/vain_opens.hpp"
#include "waiting/members.hpp"
#include "waiting/stuck.hpp"
#include "waiting/survey.hpp"

namespace wilkins {

namespace {

struct Wait {
    int rank, pid, port;
    WaitFor what;
    uint64_t nanoseconds;
    std::string name;
    bool strange, looks, unsure;
    std::vector<Ranks> on;
};

struct Flush {
    int rank, pid, port;
    uint64_t nanoseconds;
};

struct Poll {
    int rank, port;
    uint64_t looks, nanoseconds;
    std::string name;
    bool lists;
};

struct Unmatched {
    std::string name;
    uint64_t uses;
};

struct Task {
    TaskState state;
    uint32_t starts;
    bool met_failure;
    std::string vain_open;
    uint64_t waiting, moving, moved;
    std::vector<Wait> waits;
    std::vector<Flush> flushes;
    std::vector<Unmatched> unmatched_names;
    std::vector<Poll> polls;
    std::vector<int> among;  // ranks in calls of MPI's which others of them may have to end
};

struct Port {
    uint64_t steps, bytes, names, dropped, reopened, shared, unseen, left, brought;
    bool touched;
    StandIn stand_in;
    std::string stands;
    uint64_t in_vain;
    bool again;
    bool only_looks;
    std::string asked;
    std::string begun_in;
    uint64_t lost_changes;
    uint64_t not_found, not_found_printed;
    std::string not_found_path, not_found_in;
    bool shown_a_part = false;  // in: since its task's last start, a listing has shown some of its steps, and none has waited for all
};

struct Channel {
    uint64_t queued, published, read, skipped, dropped, let_go, newer, held;
    std::vector<uint64_t> reached;
    std::string next;
};

struct Facts {
    std::vector<Task> tasks;
    std::vector<Port> ports;
    std::vector<Channel> channels;
    uint64_t memory, memory_peak;
    bool trace_stopped;
};

bool waits_now(const RankRecord& rank) {
    return std::any_of(std::begin(rank.waits), std::end(rank.waits), [](const WaitRecord& wait) { return wait.what != WaitFor::nothing; });
}

Task task_facts(const Board& board, Survey& survey, int index, int64_t now, bool threads) {
    const TaskRecord& record = board.task(index);
    Task task = {record.state, record.starts, record.met_failure != 0, vain_open(board, index), 0, 0, 0, {}, {}, {}, {}, {}};
    for (int k = 0; k < kUnmatchedNames; ++k)
        if (const UnmatchedName& place = board.unmatched_names(index)[k]; place.whole.load(std::memory_order_acquire)) task.unmatched_names.push_back({place.name, place.uses});
    for (RankRecord& rank : ranks_of(board, record)) {
        const int r = board.index(rank);
        task.waiting += rank.waiting_ns.load();
        task.moving += rank.moving_ns.load();
        task.moved += rank.moved_bytes.load();
        if (const int64_t since = rank.flush_since; since != 0 && !waits_now(rank))
            task.flushes.push_back({rank.rank, rank.flush_pid, rank.flush_port, static_cast<uint64_t>(now - since)});
        if (const Vain& vain = rank.vain; vain.looks > 0 && vain.files == rank.files)
            task.polls.push_back({rank.rank, vain.port, vain.looks, static_cast<uint64_t>(now - vain.since), vain.name, vain.lists != 0});
        if (!waits_now(rank)) {
            if (threads && is_among_ranks(board, r, kAmongNs) && !is_unsure(board, r)) task.among.push_back(rank.rank);
            continue;
        }
        const bool unsure = threads && is_unsure(board, r);
        each_wait(rank, [&](const WaitRecord& wait) {
            const auto waited = static_cast<uint64_t>(now - wait.since);
            task.waiting += waited;
            const bool strange = wait.what == WaitFor::data && strcmp(wait.name, board.port(wait.port).pattern) != 0 &&
                                 queue::is_strange(board, board.port(wait.port), wait.name);
            task.waits.push_back({rank.rank, wait.pid, wait.port, wait.what, waited, wait.name, strange, wait.kind == WaitKind::gives_up, unsure,
                                  survey.waits_on(r, wait)});
        });
    }
    if (const int awaited = record.awaits - 1; awaited >= 0 && record.state != TaskState::ended && task.waits.empty())
        task.waits.push_back({0, 0, awaited, WaitFor::data, static_cast<uint64_t>(now - record.awaits_since), board.port(awaited).pattern, false, false, false,
                              survey.producers(awaited)});
    return task;
}

Facts take_facts(const Board& board, bool threads) {
    Facts facts;
    Survey survey(board);
    const BoardRecord& head = board.head();
    const int64_t now = now_ns();
    for (int t = 0; t < head.tasks; ++t) facts.tasks.push_back(task_facts(board, survey, t, now, threads));
    for (const PortRecord& port : ports_of(board)) {
        uint64_t dropped = 0, names = 0, left = 0, brought = 0;
        for (const ChannelRecord& channel : channels_of(board, port)) dropped += channel.dropped;
        for (const SourceRecord& source : sources_of(board, port)) {
            names += source.different;
            left += source.left.load();
            brought += source.asked.load();
        }
        facts.ports.push_back({port.steps, port.bytes, names, dropped, port.reopened, port.shared, port.unseen, left, brought, port.touched != 0, port.stand_in, port.stands, port.in_vain,
                               port.again != 0, port.only_looks != 0, port.vain_name, port.begun_in,
                               port.lost_changes, port.not_found, port.not_found_printed, port.not_found_path, port.not_found_in});
        facts.ports.back().shown_a_part = port.listed_to > 0 && !port.listed_whole;
    }
    for (const ChannelRecord& channel : channels_of(board)) {
        const int c = board.index(channel);
        Channel found = {survey.queued(c),  channel.published, channel.read,   channel.skipped,
                         channel.dropped, channel.let_go,    channel.newer,     survey.held(c), std::vector<uint64_t>(static_cast<size_t>(channel.readers)), survey.next(c)};
        for (const SourceRecord& source : sources_of(board, channel))
            for (int r = 0; r < channel.readers; ++r) {
                uint64_t& most = found.reached[static_cast<size_t>(r)];
                most = std::max(most, board.mark(channel, source.rank, r).next);
            }
        facts.channels.push_back(std::move(found));
    }
    facts.memory = head.memory + ahead::held(board, -1);
    facts.memory_peak = std::max(head.memory_peak, facts.memory);
    facts.trace_stopped = head.trace_stopped != 0;
    return facts;
}

void field(std::string& out, const char* name, uint64_t value) {
    out += std::string(",\"") + name + "\":" + std::to_string(value);
}

void field(std::string& out, const char* name, bool value) { out += std::string(",\"") + name + (value ? "\":true" : "\":false"); }

void seconds(std::string& out, const char* name, uint64_t nanoseconds) {
    char text[32];
    snprintf(text, sizeof(text), "%.6f", static_cast<double>(nanoseconds) / 1e9);
    out += std::string(",\"") + name + "\":" + text;
}

// As [task, first rank, last rank], each within one task.
void append(const Board& board, std::string& out, const std::vector<Ranks>& ranks) {
    const char* before = "[";
    for (const Ranks& some : ranks) {
        for (int first = some.first; first <= some.last;) {
            const RankRecord& rank = board.rank(first);
            const TaskRecord& task = board.task(rank.task);
            const int last = std::min(some.last, task.first_rank + task.nprocs - 1);
            out += before + std::to_string(rank.task) + "," + std::to_string(rank.rank) + "," + std::to_string(last - task.first_rank) + "]";
            before = ",[";
            first = last + 1;
        }
    }
}

void append(const Board& board, std::string& out, const Wait& wait) {
    static const char* const kinds[] = {"", "data", "room", "memory"};
    out += "{\"rank\":" + std::to_string(wait.rank) + ",\"pid\":" + std::to_string(wait.pid) + ",\"for\":\"" +
           kinds[static_cast<int>(wait.what)] + "\",\"port\":" + std::to_string(wait.port) + ",\"name\":";
    append_json(out, wait.name.c_str());
    seconds(out, "seconds", wait.nanoseconds);
    field(out, "strange", wait.strange);
    field(out, "unsure", wait.unsure);
    field(out, "looks", wait.looks);
    out += ",\"on\":[";
    append(board, out, wait.on);
    out += "]}";
}

void append(std::string& out, const Flush& flush) {
    out += "{\"rank\":" + std::to_string(flush.rank) + ",\"pid\":" + std::to_string(flush.pid) + ",\"port\":" + std::to_string(flush.port);
    seconds(out, "seconds", flush.nanoseconds);
    out += "}";
}

void append(std::string& out, const Poll& poll) {
    out += "{\"rank\":" + std::to_string(poll.rank) + ",\"port\":" + std::to_string(poll.port) + ",\"name\":";
    append_json(out, poll.name.c_str());
    field(out, "looks", poll.looks);
    seconds(out, "seconds", poll.nanoseconds);
    out += std::string(",\"lists\":") + (poll.lists ? "true" : "false") + "}";
}

void append(std::string& out, const Unmatched& unmatched) {
    out += "{\"name\":";
    append_json(out, unmatched.name.c_str());
    field(out, "uses", unmatched.uses);
    out += "}";
}

void append(const Board& board, std::string& out, const TaskRecord& record, const Task& task) {
    static const char* const states[] = {"pending", "running", "ended"};
    out += "{\"name\":";
    append_json(out, record.name);
    out += std::string(",\"state\":\"") + states[static_cast<int>(task.state)] + "\"";
    field(out, "nprocs", static_cast<uint64_t>(record.nprocs));
    field(out, "starts", static_cast<uint64_t>(task.starts));
    field(out, "met_failure", task.met_failure);
    out += ",\"vain_open\":" + task.vain_open;
    field(out, "moved_bytes", task.moved);
    seconds(out, "waiting_s", task.waiting);
    seconds(out, "moving_s", task.moving);
    out += ",\"waits\":[";
    for (const Wait& wait : task.waits) {
        if (&wait != &task.waits.front()) out += ',';
        append(board, out, wait);
    }
    out += "],\"flushes\":[";
    for (const Flush& flush : task.flushes) {
        if (&flush != &task.flushes.front()) out += ',';
        append(out, flush);
    }
    out += "],\"unmatched_names\":[";
    for (const Unmatched& one : task.unmatched_names) {
        if (&one != &task.unmatched_names.front()) out += ',';
        append(out, one);
    }
    out += "],\"polls\":[";
    for (const Poll& poll : task.polls) {
        if (&poll != &task.polls.front()) out += ',';
        append(out, poll);
    }
    out += "],\"among\":[";
    for (const int rank : task.among) out += (rank == task.among.front() ? "" : ",") + std::to_string(rank);
    out += "]}";
}

void append(std::string& out, const PortRecord& record, const Port& port) {
    out += "{\"pattern\":";
    append_json(out, record.pattern);
    out += std::string(",\"direction\":\"") + (record.direction == Direction::in ? "in" : "out") + "\"";
    field(out, "task", static_cast<uint64_t>(record.task));
    field(out, "steps", port.steps);
    field(out, "bytes", port.bytes);
    field(out, "names", port.names);
    field(out, "dropped", port.dropped);
    field(out, "reopened", port.reopened);
    field(out, "shared", port.shared);
    field(out, "unseen", port.unseen);
    field(out, "left", port.left);
    field(out, "brought", port.brought);
    field(out, "touched", port.touched);
    field(out, "shown_a_part", port.shown_a_part);
    field(out, "waits_first", record.habits.first == First::wait);
    field(out, "waits_looks", record.habits.looks == Looks::wait);
    static const char* const ways[] = {"no", "given", "undecided", "found", "prevented"};
    out += std::string(",\"stand_in\":\"") + ways[static_cast<int>(port.stand_in)] + "\",\"stands\":";
    append_json(out, port.stands.c_str());
    field(out, "in_vain", port.in_vain);
    field(out, "again", port.again);
    field(out, "only_looks", port.only_looks);
    out += ",\"asked\":";
    append_json(out, port.asked.c_str());
    out += ",\"begun_in\":";
    append_json(out, port.begun_in.c_str());
    field(out, "lost_changes", port.lost_changes);
    field(out, "not_found", port.not_found);
    field(out, "not_found_printed", port.not_found_printed);
    out += ",\"not_found_path\":";
    append_json(out, port.not_found_path.c_str());
    out += ",\"not_found_in\":";
    append_json(out, port.not_found_in.c_str());
    out += "}";
}

void append(std::string& out, const ChannelRecord& record, const Channel& channel) {
    out += "{\"outport\":" + std::to_string(record.outport);
    field(out, "inport", static_cast<uint64_t>(record.inport));
    field(out, "every", uint64_t{record.every});
    field(out, "offset", uint64_t{record.offset});
    field(out, "queued", channel.queued);
    field(out, "published", channel.published);
    field(out, "read", channel.read);
    field(out, "skipped", channel.skipped);
    field(out, "dropped", channel.dropped);
    field(out, "let_go", channel.let_go);
    field(out, "newer", channel.newer);
    field(out, "waits", record.when_full == WhenFull::block);
    field(out, "held", channel.held);
    out += ",\"reached\":[";
    for (size_t r = 0; r < channel.reached.size(); ++r) out += (r ? "," : "") + std::to_string(channel.reached[r]);
    out += "],\"next\":";
    append_json(out, channel.next.c_str());
    out += "}";
}

}  // namespace

void append_json(std::string& out, const char* text) {
    out += '"';
    for (const char* c = text; *c; ++c) {
        const auto byte = static_cast<unsigned char>(*c);
        char escaped[8];
        if (*c == '"' || *c == '\\') {
            out += '\\';
            out += *c;
        } else if (byte < 0x20) {
            snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
            out += escaped;
        } else {
            out += *c;
        }
    }
    out += '"';
}

std::string vain_open(const Board& board, int task) {
    static const char* const kinds[] = {"nothing", "next name", "next step", "only step", "unequal", "unread", "gone", "strange"};
    static const char* const ways[] = {"no", "read", "wrote"};
    const VainOpen* const open = queue::last_vain_open(board, task);
    if (!open) return "null";
    std::string out = std::string("{\"sought\":\"") + kinds[static_cast<int>(open->sought.load())] + "\",\"went_on\":\"" +
                      ways[static_cast<int>(open->went_on.load())] + "\"";
    field(out, "port", static_cast<uint64_t>(open->port));
    field(out, "steps", uint64_t{open->steps});
    field(out, "opens", uint64_t{open->opens});
    field(out, "process", uint64_t{open->process});
    out += ",\"name\":";
    append_json(out, open->name);
    out += ",\"then\":";
    append_json(out, open->then);
    return out + "}";
}

std::string report(const Board& board, Board::Lock& lock, bool threads) {
    lock.write_events();
    const Facts facts = take_facts(board, threads);
    lock.release();
    std::string out = "{\"tasks\":[";
    for (size_t t = 0; t < facts.tasks.size(); ++t) {
        if (t) out += ',';
        append(board, out, board.task(static_cast<int>(t)), facts.tasks[t]);
    }
    out += "],\"ports\":[";
    for (size_t p = 0; p < facts.ports.size(); ++p) {
        if (p) out += ',';
        append(out, board.port(static_cast<int>(p)), facts.ports[p]);
    }
    out += "],\"channels\":[";
    for (size_t c = 0; c < facts.channels.size(); ++c) {
        if (c) out += ',';
        append(out, board.channel(static_cast<int>(c)), facts.channels[c]);
    }
    out += "]";
    field(out, "memory_bytes", facts.memory);
    field(out, "memory_peak_bytes", facts.memory_peak);
    field(out, "trace_stopped", facts.trace_stopped);
    return out + "}";
}

}  // namespace wilkins
