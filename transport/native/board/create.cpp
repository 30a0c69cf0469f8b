// What a run's board holds, where on it, and what is in it at first.
#include "board/create.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "board/layout.hpp"

namespace wilkins {

namespace {

constexpr uint32_t kLongestQueue = 1u << 20;

uint64_t align_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// One of the arrays that the launcher hands over.
template <class T>
class Rows {
public:
    Rows(const T* first, uint64_t length) : first_(first), length_(static_cast<int>(length)) {}
    const T* begin() const { return first_; }
    const T* end() const { return first_ + length_; }
    const T& operator[](int index) const { return first_[index]; }
    int size() const { return length_; }
    bool has(int index) const { return index >= 0 && index < length_; }

private:
    const T* first_;
    int length_;
};

// What the launcher tells of a run.
struct Run {
    explicit Run(const plan::Arrays& run)
        : tasks(run.tasks, run.tasks_length),
          ports(run.ports, run.ports_length),
          channels(run.channels, run.channels_length),
          begins(run.begins, run.begins_length),
          first_steps(run.first_steps, run.first_steps_length),
          log_file(run.log_file),
          trace_file(run.trace_file),
          trace_at_once(run.trace_at_once != 0) {}
    int nprocs_of(int port) const { return tasks[ports[port].task].nprocs; }
    bool has_rank(int port, int rank) const { return rank >= 0 && rank < nprocs_of(port); }

    const Rows<plan::BoardTask> tasks;
    const Rows<plan::BoardPort> ports;
    const Rows<plan::BoardChannel> channels;
    const Rows<plan::Begin> begins;
    const Rows<plan::FirstStep> first_steps;
    const char* const log_file;
    const char* const trace_file;
    const bool trace_at_once;
};

bool is_valid(const Run& run, const plan::BoardPort& port) {
    if (!run.tasks.has(port.task) || strlen(port.pattern) >= kNameMax || strlen(port.alias) >= kNameMax) return false;
    return port.keys.publish_count >= 1 && port.keys.opens_per_step >= 1 &&
           (!port.alias[0] || port.direction == Direction::in);
}

bool is_valid(const Run& run, const plan::BoardChannel& channel) {
    if (!run.ports.has(channel.outport) || !run.ports.has(channel.inport)) return false;
    if (run.ports[channel.outport].direction != Direction::out || run.ports[channel.inport].direction != Direction::in)
        return false;
    if (channel.every < 1 || channel.offset >= channel.every || channel.queue < 1 || channel.queue > kLongestQueue)
        return false;
    return channel.readers >= 1 && channel.readers <= run.nprocs_of(channel.inport) &&
           run.ports[channel.inport].keys.reorder <= kLongestQueue;
}

bool is_valid(const Run& run) {
    const auto all = [&run](const auto& records) {
        return std::all_of(records.begin(), records.end(),
                           [&run](const auto& record) { return is_valid(run, record); });
    };
    for (const auto& task : run.tasks)
        if (task.nprocs < 1 || strlen(task.name) >= sizeof(TaskRecord::name)) return false;
    if (!all(run.ports) || !all(run.channels)) return false;
    for (const auto& begin : run.begins)
        if (!run.ports.has(begin.port) || !run.has_rank(begin.port, begin.rank) ||
            run.ports[begin.port].direction != Direction::out)
            return false;
    for (const auto& first : run.first_steps)
        if (!run.channels.has(first.channel) || !run.has_rank(run.channels[first.channel].outport, first.rank) ||
            first.offered > UINT32_MAX)
            return false;
    return strlen(run.log_file) < sizeof(BoardRecord::log_file) &&
           strlen(run.trace_file) < sizeof(BoardRecord::trace_file);
}

// Lays tables out one after the other.
class Layouter {
public:
    template <class T>
    uint64_t take(uint64_t count) {
        const uint64_t here = end_;
        end_ = align_up(end_ + sizeof(T) * count, 64);
        return here;
    }
    uint64_t end() const { return end_; }

private:
    uint64_t end_ = 0;
};

// How much a port has of what differs from port to port, and where.
struct PortShape {
    std::vector<int> links;    // its channels
    uint32_t longest = 1;      // out: of their queues
    uint32_t each = 0;         // out: slots of a rank
    uint64_t slots = 0;        // out: of all
    uint64_t readers = 0;      // out: of all channels
    uint32_t log_room = 0;     // in: slots of all producers
    int32_t place_beside = 0;  // among the ports whose steps come from the same host,
    uint64_t beside = 0;       // of which there are so many; 0: the steps are this host's own
    uint64_t positions = 0, log = 0, firsts = 0, looked = 0, asked = 0, latest = 0, given = 0;  // in
    uint64_t on = 0, consumed = 0, before = 0;                                                  // out
};

// Where a channel's tables are.
struct ChannelShape {
    uint64_t marks, logged, offered, firsts;
};

class Maker {
public:
    explicit Maker(const Run& run) : run_(run), ports_(static_cast<size_t>(run.ports.size())) {}

    // What there is; false: too much of it.
    bool count() {
        count_links();
        for (int p = 0; p < run_.ports.size(); ++p) {
            PortShape& port = shape(p);
            links_ += static_cast<int>(port.links.size());
            if (run_.ports[p].direction == Direction::in) continue;
            const int nprocs = run_.nprocs_of(p);
            port.each = port.longest + kSpareSlots + (publishes_later(run_.ports[p].keys) ? kClosedSlots : 0);
            port.slots = uint64_t{port.each} * static_cast<uint64_t>(nprocs);
            sources_ += nprocs;
            slots_ += port.slots;
        }
        for (const auto& channel : run_.channels)
            shape(channel.inport).log_room += static_cast<uint32_t>(shape(channel.outport).slots);
        for (const auto& task : run_.tasks) ranks_ += task.nprocs;
        count_beside();
        return slots_ <= INT_MAX;
    }

    // Where it is to be: how many bytes the board has.
    uint64_t lay_out() {
        Layouter out;
        const auto number = [](int count) { return static_cast<uint64_t>(count); };
        out.take<BoardRecord>(1);
        at_tasks_ = out.take<TaskRecord>(number(run_.tasks.size()));
        at_ports_ = out.take<PortRecord>(number(run_.ports.size()));
        at_channels_ = out.take<ChannelRecord>(number(run_.channels.size()));
        at_links_ = out.take<int32_t>(number(links_));
        at_sources_ = out.take<SourceRecord>(number(sources_));
        at_slots_ = out.take<SlotRecord>(slots_);
        at_ranks_ = out.take<RankRecord>(number(ranks_));
        at_unmatched_names_ = out.take<UnmatchedName>(kUnmatchedNames * number(run_.tasks.size()));
        for (const auto& channel : run_.channels) {
            const uint64_t sources = number(run_.nprocs_of(channel.outport));
            const uint64_t marks = out.take<Mark>(sources * number(channel.readers)),
                           logged = out.take<uint64_t>(sources);
            const uint64_t offered = out.take<uint64_t>(sources), firsts = out.take<uint64_t>(sources);
            channels_.push_back({marks, logged, offered, firsts});
        }
        for (int p = 0; p < run_.ports.size(); ++p) {
            if (run_.ports[p].direction == Direction::in) lay_out_inport(out, shape(p), number(run_.nprocs_of(p)));
            else lay_out_outport(out, shape(p));
        }
        size_ = align_up(out.end(), 4096);
        return size_;
    }

    // Fills the board, which is zeroed.
    void fill(unsigned char* bytes, uint64_t reserve) {
        bytes_ = bytes;
        fill_head(reserve);
        fill_tasks();
        fill_channels();
        for (int p = 0; p < run_.ports.size(); ++p) fill_port(p);
        for (int p = 0; p < run_.ports.size(); ++p)
            if (run_.ports[p].direction == Direction::out) fill_sources(p);
        fill_beginnings();
        head().magic = kMagic;
    }

private:
    PortShape& shape(int port) { return ports_[static_cast<size_t>(port)]; }
    template <class T>
    T* table(uint64_t offset) const {
        return reinterpret_cast<T*>(bytes_ + offset);
    }
    BoardRecord& head() const { return *table<BoardRecord>(0); }
    PortRecord& port(int index) const { return table<PortRecord>(at_ports_)[index]; }
    ChannelRecord& channel(int index) const { return table<ChannelRecord>(at_channels_)[index]; }
    SourceRecord& source(int outport, int rank) const {
        return table<SourceRecord>(at_sources_)[port(outport).first_source + rank];
    }

    void count_links() {
        for (int c = 0; c < run_.channels.size(); ++c) {
            const auto& channel = run_.channels[c];
            const AccessKeys& reader = run_.ports[channel.inport].keys;
            PortShape& out = shape(channel.outport);
            out.links.push_back(c);
            shape(channel.inport).links.push_back(c);
            out.readers += static_cast<uint64_t>(channel.readers);
            out.longest = std::max({out.longest, channel.queue, reader.reorder});
            if (reader.listing != Lists::end) continue;
            out.longest = std::max(
                {out.longest, kSeriesSlots / static_cast<uint32_t>(run_.nprocs_of(channel.outport)), kLeastSeries});
        }
    }

    void count_beside() {
        std::map<uint32_t, int32_t> from_host;  // ports whose steps come from there
        for (int p = 0; p < run_.ports.size(); ++p) {
            int32_t& known = from_host[run_.ports[p].keys.far_host];
            shape(p).place_beside = known;
            known += run_.ports[p].direction == Direction::out;
        }
        for (int p = 0; p < run_.ports.size(); ++p)
            if (const uint32_t host = run_.ports[p].keys.far_host)
                shape(p).beside = static_cast<uint64_t>(from_host[host]);
    }

    static void lay_out_inport(Layouter& out, PortShape& port, uint64_t ranks) {
        port.positions = out.take<uint32_t>(ranks);
        port.log = out.take<Delivery>(port.log_room);
        port.firsts = out.take<FirstOpens>(ranks);
        port.looked = out.take<Looked>(ranks);
        port.asked = out.take<Asked>(ranks);
        port.latest = out.take<uint64_t>(ranks);
        port.given = out.take<uint64_t>(port.log_room);
    }

    static void lay_out_outport(Layouter& out, PortShape& port) {
        port.on = out.take<uint8_t>(port.slots * port.links.size());
        port.consumed = out.take<uint8_t>(port.slots * port.readers);
        port.before = out.take<uint64_t>(port.slots * port.beside);
    }

    void fill_head(uint64_t reserve) {
        BoardRecord& head = this->head();
        head.at_tasks = at_tasks_;
        head.at_ports = at_ports_;
        head.at_channels = at_channels_;
        head.at_links = at_links_;
        head.at_sources = at_sources_;
        head.at_slots = at_slots_;
        head.at_ranks = at_ranks_;
        head.at_unmatched_names = at_unmatched_names_;
        head.layout = kLayout;
        head.size = size_;
        head.reserve = reserve;
        head.tasks = run_.tasks.size();
        head.ports = run_.ports.size();
        head.channels = run_.channels.size();
        head.links = links_;
        head.sources = sources_;
        head.slots = static_cast<int>(slots_);
        head.ranks = ranks_;
        strcpy(head.log_file, run_.log_file);
        strcpy(head.trace_file, run_.trace_file);
        head.trace_at_once = run_.trace_at_once;
    }

    void fill_tasks() {
        auto* rank = table<RankRecord>(at_ranks_);
        for (int t = 0; t < run_.tasks.size(); ++t) {
            const auto& from = run_.tasks[t];
            TaskRecord& task = table<TaskRecord>(at_tasks_)[t];
            strcpy(task.name, from.name);
            task.nprocs = from.nprocs;
            task.folder = {from.device, from.inode};
            task.first_rank = static_cast<int32_t>(rank - table<RankRecord>(at_ranks_));
            for (int r = 0; r < from.nprocs; ++r, ++rank) {
                rank->task = t;
                rank->rank = r;
                for (int& held : rank->holds.slots) held = -1;
            }
        }
    }

    void fill_channels() {
        for (int c = 0; c < run_.channels.size(); ++c) {
            const auto& from = run_.channels[c];
            const ChannelShape& at = channels_[static_cast<size_t>(c)];
            ChannelRecord& channel = this->channel(c);
            channel.outport = from.outport;
            channel.inport = from.inport;
            channel.every = from.every;
            channel.offset = from.offset;
            channel.queue = from.queue;
            channel.when_full = from.when_full;
            channel.group = from.group;
            channel.readers = from.readers;
            channel.readers_given = from.readers_given != 0;
            channel.marks = at.marks;
            channel.logged = at.logged;
            channel.offered = at.offered;
            channel.firsts = at.firsts;
        }
    }

    void fill_port(int index) {
        const auto& from = run_.ports[index];
        PortRecord& port = this->port(index);
        TaskRecord& task = table<TaskRecord>(at_tasks_)[from.task];
        if (task.last_port == 0) task.first_port = index;
        task.last_port = index + 1;
        port.task = from.task;
        port.direction = from.direction;
        port.cap = from.cap_bytes;
        port.keys = from.keys;
        fill_names(from, port);
        fill_links(shape(index), port);
        const PortShape& at = shape(index);
        port.positions = at.positions;
        port.log = at.log;
        port.log_room = at.log_room;
        port.firsts = at.firsts;
        port.looked = at.looked;
        port.asked = at.asked;
        port.given = at.given;
        port.latest = at.latest;
    }

    static void fill_names(const plan::BoardPort& from, PortRecord& port) {
        strcpy(port.pattern, from.pattern);
        strcpy(port.alias, from.alias);
        port.components = static_cast<uint32_t>(compared_components(port.pattern));
        port.alias_components = static_cast<uint32_t>(compared_components(port.alias));
        // (The name of a folder is that of one step.)
        port.fixed = from.alias[0] || (!has_wildcard(port.pattern) && !from.keys.is_set);
        if (from.alias[0]) port.alias_state = AliasState::given;
        else if (from.may_have_alias && !port.fixed) port.alias_state = AliasState::undecided;
    }

    void fill_links(const PortShape& shape, PortRecord& port) {
        port.first_link = next_link_;
        port.links = static_cast<int32_t>(shape.links.size());
        int32_t place = 0, readers_before = 0;
        for (const int c : shape.links) {
            table<int32_t>(at_links_)[next_link_++] = c;
            ChannelRecord& channel = this->channel(c);
            if (port.direction == Direction::in) {
                channel.link = place++;
                continue;
            }
            channel.place = place++;
            channel.reader_place = readers_before;
            readers_before += channel.readers;
        }
    }

    // The ranks of an out-port, and the slots of each.
    void fill_sources(int outport) {
        const PortShape& at = shape(outport);
        PortRecord& port = this->port(outport);
        port.beside = at.place_beside;
        port.first_source = next_source_;
        port.sources = run_.nprocs_of(outport);
        const bool lists_series = std::any_of(at.links.begin(), at.links.end(), [this](int c) {
            return run_.ports[run_.channels[c].inport].keys.listing == Lists::end;
        });
        uint64_t on = at.on, consumed = at.consumed, before = at.before;
        for (int r = 0; r < port.sources; ++r, ++next_source_) {
            SourceRecord& source = this->source(outport, r);
            source.port = outport;
            source.rank = r;
            if (lists_series) source.series = 1;
            source.first_slot = next_slot_;
            source.slots = static_cast<int>(at.each);
            for (uint32_t k = 0; k < at.each; ++k) {
                SlotRecord& slot = table<SlotRecord>(at_slots_)[next_slot_++];
                slot.source = next_source_;
                slot.on = on;
                slot.consumed = consumed;
                slot.origin.before = before;
                on += at.links.size();
                consumed += at.readers;
                before += sizeof(uint64_t) * at.beside;
            }
        }
    }

    // Of a run that goes on with another one.
    void fill_beginnings() {
        for (const auto& begin : run_.begins) {
            SourceRecord& source = this->source(begin.port, begin.rank);
            source.first_sequence = source.next_sequence = begin.sequence;
        }
        for (const auto& first : run_.first_steps) {
            const ChannelRecord& channel = this->channel(first.channel);
            const uint64_t next = source(channel.outport, first.rank).next_sequence;
            table<uint64_t>(channel.firsts)[first.rank] = first.first;
            // As if the step before the next one had been counted last (see queue::offered).
            table<uint64_t>(channel.offered)[first.rank] = (next & UINT32_MAX) << 32 | first.offered;
        }
    }

    const Run& run_;
    std::vector<PortShape> ports_;
    std::vector<ChannelShape> channels_;
    int links_ = 0, sources_ = 0, ranks_ = 0;
    uint64_t slots_ = 0;
    uint64_t at_tasks_ = 0, at_ports_ = 0, at_channels_ = 0, at_links_ = 0, at_sources_ = 0, at_slots_ = 0,
             at_ranks_ = 0, at_unmatched_names_ = 0;
    uint64_t size_ = 0;
    unsigned char* bytes_ = nullptr;
    int next_link_ = 0, next_source_ = 0, next_slot_ = 0;
};

// Address space set aside per arena: no step can outgrow the file system it lies on.
uint64_t reserve_for(const char* folder) {
    struct statvfs fs;
    uint64_t total = 1ull << 34;
    if (statvfs(folder, &fs) == 0 && fs.f_blocks != 0) total = static_cast<uint64_t>(fs.f_blocks) * fs.f_frsize;
    return align_up(total, 1ull << 30);
}

// A new file of zeroes, mapped.
int map_new(const char* path, uint64_t size, void** base) {
    const int fd = raw::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    int error = posix_fallocate(fd, 0, static_cast<off_t>(size));
    if (!error) {
        *base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (*base == MAP_FAILED) error = errno;
    }
    raw::close(fd);
    if (error) raw::unlink(path);
    return error;
}

}  // namespace

int create_board(const char* folder, const plan::Arrays& arrays) {
    const Run run(arrays);
    if (!is_valid(run)) return EINVAL;
    Maker maker(run);
    if (!maker.count()) return EOVERFLOW;
    const uint64_t size = maker.lay_out();
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/board", folder);
    void* base = nullptr;
    if (const int error = map_new(path, size, &base)) return error;
    maker.fill(static_cast<unsigned char*>(base), reserve_for(folder));
    munmap(base, size);
    return 0;
}

}  // namespace wilkins
