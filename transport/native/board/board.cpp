// Creating and mapping a run's board; its lock and its futex bells.
#include "board/board.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "board/context.hpp"
#include "board/trace.hpp"

namespace wilkins {

namespace {

uint64_t align_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// Lays records out one table after the other.
class Layouter {
public:
    uint64_t take(uint64_t bytes) {
        uint64_t here = end_;
        end_ = align_up(end_ + bytes, 64);
        return here;
    }
    uint64_t end() const { return end_; }

private:
    uint64_t end_ = 0;
};

bool copy_text(char* to, size_t room, const std::string& text) {
    if (text.size() >= room) return false;
    memcpy(to, text.c_str(), text.size() + 1);
    return true;
}

constexpr uint32_t kLongestQueue = 1u << 20;

bool valid(const BoardPlan& plan) {
    for (const auto& task : plan.tasks)
        if (task.nprocs < 1 || task.name.size() >= sizeof(TaskRecord::name)) return false;
    for (const auto& port : plan.ports)
        if (port.task < 0 || port.task >= static_cast<int>(plan.tasks.size()) || port.pattern.size() >= kNameMax) return false;
    for (const auto& port : plan.ports)
        if (port.habits.publish_count < 1 || port.habits.opens_per_step < 1) return false;
    for (const auto& port : plan.ports)
        if (port.stands.size() >= kNameMax || (!port.stands.empty() && port.direction != Direction::in)) return false;
    for (const auto& channel : plan.channels) {
        int ports = static_cast<int>(plan.ports.size());
        if (channel.outport < 0 || channel.outport >= ports || channel.inport < 0 || channel.inport >= ports) return false;
        const auto& out = plan.ports[static_cast<size_t>(channel.outport)];
        const auto& in = plan.ports[static_cast<size_t>(channel.inport)];
        if (out.direction != Direction::out || in.direction != Direction::in) return false;
        if (channel.every < 1 || channel.offset >= channel.every || channel.queue < 1 || channel.queue > kLongestQueue || channel.readers < 1) return false;
        if (channel.readers > plan.tasks[static_cast<size_t>(in.task)].nprocs || in.habits.reorder > kLongestQueue) return false;
    }
    const auto has_rank = [&](int port, int rank) {
        return rank >= 0 && rank < plan.tasks[static_cast<size_t>(plan.ports[static_cast<size_t>(port)].task)].nprocs;
    };
    for (const auto& begin : plan.begins) {
        if (begin.port < 0 || begin.port >= static_cast<int>(plan.ports.size()) || !has_rank(begin.port, begin.rank)) return false;
        if (plan.ports[static_cast<size_t>(begin.port)].direction != Direction::out) return false;
    }
    for (const auto& rest : plan.rests) {
        if (rest.channel < 0 || rest.channel >= static_cast<int>(plan.channels.size())) return false;
        if (!has_rank(plan.channels[static_cast<size_t>(rest.channel)].outport, rest.rank) || rest.offered > UINT32_MAX) return false;
    }
    return plan.log_file.size() < sizeof(BoardRecord::log_file) && plan.trace_file.size() < sizeof(BoardRecord::trace_file);
}

// Address space set aside per arena: no step can outgrow the file system it lies on.
uint64_t reserve_for(const char* folder) {
    struct statvfs fs;
    uint64_t total = 1ull << 34;
    if (statvfs(folder, &fs) == 0 && fs.f_blocks != 0) total = static_cast<uint64_t>(fs.f_blocks) * fs.f_frsize;
    return align_up(total, 1ull << 30);
}

}  // namespace

int64_t now_ns() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

Board::~Board() {
    if (!base_) return;
    for (int k = 0; k < kSegments; ++k)
        if (annexed_[k]) munmap(annexed_[k], head().annex[k].size);
    munmap(base_, size_);
}

int Board::attach(const char* folder) {
    if (strlen(folder) >= sizeof(folder_)) return ENAMETOOLONG;
    snprintf(file_, sizeof(file_), "%s/board", folder);
    int fd = raw::open(file_, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return errno;
    struct stat st;
    int error = raw::fstat(fd, &st) == 0 ? 0 : errno;
    void* base = MAP_FAILED;
    if (!error) {
        base = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED) error = errno;
    }
    raw::close(fd);
    if (error) return error;
    auto* record = static_cast<BoardRecord*>(base);
    const bool ours = static_cast<uint64_t>(st.st_size) >= sizeof(BoardRecord) && record->magic == kMagic && record->layout == kLayout;
    error = ours ? life_.begin(file_, &record->processes) : EPROTO;
    if (error) {
        munmap(base, static_cast<size_t>(st.st_size));
        return error;
    }
    base_ = static_cast<unsigned char*>(base);
    size_ = static_cast<uint64_t>(st.st_size);
    strcpy(folder_, folder);
    return 0;
}

Board::Lock::Lock(const Board& board) : board_(board) { acquire(); }

Board::Lock::~Lock() { release(); }

namespace {

__attribute__((tls_model("initial-exec"))) thread_local Board::Lock* innermost = nullptr;

void wake_all(std::atomic<uint32_t>& bell) {
    const int before = errno;
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    errno = before;
}

}  // namespace

int64_t Board::Lock::limit() const { return patience_ < 0 ? INT64_MAX : now_ns() + patience_; }

void Board::Lock::acquire() { take_by(limit()); }

bool Board::Lock::acquire_within(int64_t patience) {
    patience_ = patience;
    return take_by(limit());
}

bool Board::Lock::take_by(int64_t until) {
    if (held_) return true;
    BoardRecord& head = board_.head();
    for (;;) {
        const Taken taken = board_.take(head.lock, until);
        if (taken == Taken::not_yet) return false;
        if (taken == Taken::from_dead) queue::repair(board_);
        // There must be room for the events of what is done with the lock, which is no time to write to a file.
        const uint64_t end = head.events_end.load();
        if (end - head.events_written.load() <= kTraceRoom / 2) break;
        give_back(head.lock.lock);
        if (!trace::write_until(board_, end, until)) return false;
    }
    held_ = true;
    outer_ = innermost;
    innermost = this;
    return true;
}

bool Board::Lock::release() {
    if (!held_) return written_;
    held_ = false;
    innermost = outer_;
    BoardRecord& head = board_.head();
    const uint64_t end = head.events_end.load();
    const uint64_t urgent = head.trace_at_once ? std::min(head.events_urgent.load(), end) : 0;
    give_back(head.lock.lock);
    for (; rings_ > 0; --rings_) wake_all(board_.port(rung_[rings_ - 1]).bell);
    if (log_file_) {
        write_log(log_file_, lines_.data(), lines_.size());
        log_file_ = nullptr;
        lines_.clear();
    }
    const uint64_t written = head.events_written.load();
    written_ = written >= urgent || trace::write_until(board_, urgent, limit());
    if (written >= urgent && written < end && end - written > events_kept_) trace::write_until(board_, end, events_kept_ ? 0 : limit());
    return written_;
}

bool Board::Lock::is_held() { return innermost != nullptr; }

bool Board::Lock::keep_line(const char* file, const char* line, size_t length) {
    if (!innermost) return false;
    try {
        innermost->lines_.append(line, length);
    } catch (const std::bad_alloc&) {
        return true;
    }
    innermost->log_file_ = file;
    return true;
}

bool Board::Lock::wake_later(const Board& board, int port) {
    Lock* const lock = innermost;
    if (!lock || &lock->board_ != &board) return false;
    for (int k = 0; k < lock->rings_; ++k)
        if (lock->rung_[k] == port) return true;
    if (lock->rings_ == kMostRung) return false;
    lock->rung_[lock->rings_++] = port;
    return true;
}

Taken Board::take(NamedLock& lock, int64_t until) const {
    const Taken taken = wilkins::take(lock.lock, life_, until);
    if (taken == Taken::not_yet) return taken;
    HolderRecord& holder = lock.holder;
    const uint32_t self = life_.self();
    if (holder.process.load(std::memory_order_relaxed) == self) return taken;
    holder.process.store(0, std::memory_order_relaxed);
    holder.task = task_;
    holder.rank = rank_;
    holder.pid = life_.pid();
    holder.namespace_ = life_.pid_namespace();
    snprintf(holder.program, sizeof(holder.program), "%s", program_invocation_short_name);
    holder.process.store(self, std::memory_order_release);
    return taken;
}

void Board::ring(int port) const {
    PortRecord& record = this->port(port);
    record.bell.fetch_add(1);
    ++head().moves;
    // Who comes to sleep after this look finds that the bell has been rung.
    if (record.sleepers.load() != 0 && !Lock::wake_later(*this, port)) wake_all(record.bell);
}

namespace {

constexpr int64_t kGlance = 20'000;  // ns
constexpr uint32_t kMostUnseen = 63;

// How many sleeps of this process begin without a glance yet, since the last ones saw nothing, and how many did after the last such.
std::atomic<uint32_t> unseen{0};
std::atomic<uint32_t> last_unseen{0};

// Another turn of a loop that waits for a word to change.
void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Is the bell rung within a moment? It costs less to see that than to fall asleep and to be woken: two system calls, and a processor
// that stops. Where it does not happen, since who would ring has no processor, say, hardly any time is spent on it.
bool glance(const std::atomic<uint32_t>& bell, uint32_t seen) {
    if (const uint32_t left = unseen.load(std::memory_order_relaxed); left > 0) {
        unseen.store(left - 1, std::memory_order_relaxed);
        return false;
    }
    const int64_t end = now_ns() + kGlance;
    do {
        for (int k = 0; k < 8; ++k) {
            if (bell.load(std::memory_order_acquire) != seen) {
                last_unseen.store(0, std::memory_order_relaxed);
                return true;
            }
            relax();
        }
    } while (now_ns() < end);
    const uint32_t next = std::min(2 * last_unseen.load(std::memory_order_relaxed) + 1, kMostUnseen);
    last_unseen.store(next, std::memory_order_relaxed);
    unseen.store(next, std::memory_order_relaxed);
    return false;
}

}  // namespace

bool Board::sleep(int port, uint32_t seen, int milliseconds) const {
    struct timespec limit = {milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1000000};
    PortRecord& record = this->port(port);
    if (glance(record.bell, seen)) return true;
    record.sleepers.fetch_add(1);
    long rc = syscall(SYS_futex, reinterpret_cast<uint32_t*>(&record.bell), FUTEX_WAIT, seen, &limit, nullptr, 0);
    const int error = errno;
    record.sleepers.fetch_sub(1);
    return !(rc < 0 && error == EINTR);
}

int create_board(const char* folder, const BoardPlan& plan) {
    if (!valid(plan)) return EINVAL;
    const int tasks = static_cast<int>(plan.tasks.size());
    const int ports = static_cast<int>(plan.ports.size());
    const int channels = static_cast<int>(plan.channels.size());

    std::vector<std::vector<int>> links(plan.ports.size());
    std::vector<uint32_t> longest(plan.ports.size(), 1);
    const auto nprocs_of = [&](int port) {
        return static_cast<uint32_t>(plan.tasks[static_cast<size_t>(plan.ports[static_cast<size_t>(port)].task)].nprocs);
    };
    for (int c = 0; c < channels; ++c) {
        const auto& channel = plan.channels[static_cast<size_t>(c)];
        links[static_cast<size_t>(channel.outport)].push_back(c);
        links[static_cast<size_t>(channel.inport)].push_back(c);
        auto& most = longest[static_cast<size_t>(channel.outport)];
        const auto& habits = plan.ports[static_cast<size_t>(channel.inport)].habits;
        most = std::max({most, channel.queue, habits.reorder});
        if (habits.listing == Lists::end) most = std::max({most, kSeriesSlots / nprocs_of(channel.outport), kLeastSeries});
    }
    std::vector<uint32_t> spare(plan.ports.size(), kSpareSlots);
    std::vector<uint64_t> readers(plan.ports.size());
    for (const auto& channel : plan.channels) {
        readers[static_cast<size_t>(channel.outport)] += static_cast<uint64_t>(channel.readers);
    }
    int sources = 0, ranks = 0, total_links = 0;
    int64_t slots = 0;
    std::vector<int64_t> port_slots(plan.ports.size());
    for (int p = 0; p < ports; ++p) {
        total_links += static_cast<int>(links[static_cast<size_t>(p)].size());
        if (plan.ports[static_cast<size_t>(p)].direction == Direction::in) continue;
        int n = plan.tasks[static_cast<size_t>(plan.ports[static_cast<size_t>(p)].task)].nprocs;
        sources += n;
        if (rests(plan.ports[static_cast<size_t>(p)].habits)) spare[static_cast<size_t>(p)] += kRestingSlots;
        port_slots[static_cast<size_t>(p)] = int64_t{n} * (int64_t{longest[static_cast<size_t>(p)]} + spare[static_cast<size_t>(p)]);
        slots += port_slots[static_cast<size_t>(p)];
    }
    if (slots > INT_MAX) return EOVERFLOW;
    for (const auto& task : plan.tasks) ranks += task.nprocs;

    Layouter out;
    out.take(sizeof(BoardRecord));
    BoardRecord head = {};
    head.at_tasks = out.take(sizeof(TaskRecord) * static_cast<size_t>(tasks));
    head.at_ports = out.take(sizeof(PortRecord) * static_cast<size_t>(ports));
    head.at_channels = out.take(sizeof(ChannelRecord) * static_cast<size_t>(channels));
    head.at_links = out.take(sizeof(int32_t) * static_cast<size_t>(total_links));
    head.at_sources = out.take(sizeof(SourceRecord) * static_cast<size_t>(sources));
    head.at_slots = out.take(sizeof(SlotRecord) * static_cast<size_t>(slots));
    head.at_ranks = out.take(sizeof(RankRecord) * static_cast<size_t>(ranks));
    head.at_unmatched_names = out.take(sizeof(UnmatchedName) * kUnmatchedNames * static_cast<size_t>(tasks));
    std::vector<uint64_t> at_marks, at_logged, at_offered, at_channel_firsts;
    for (const auto& channel : plan.channels) {
        auto n = static_cast<uint64_t>(plan.tasks[static_cast<size_t>(plan.ports[static_cast<size_t>(channel.outport)].task)].nprocs);
        at_marks.push_back(out.take(sizeof(Mark) * n * static_cast<uint64_t>(channel.readers)));
        at_logged.push_back(out.take(sizeof(uint64_t) * n));
        at_offered.push_back(out.take(sizeof(uint64_t) * n));
        at_channel_firsts.push_back(out.take(sizeof(uint64_t) * n));
    }
    std::vector<uint64_t> at_positions, at_log, at_firsts, at_looked, at_asked, at_given, at_latest, at_on, at_had, at_before;
    std::vector<uint32_t> log_room(plan.ports.size());
    std::map<uint32_t, int32_t> from_host;  // ports whose steps come from there
    std::vector<int32_t> place_beside;      // of each port, among them
    for (const auto& port : plan.ports) {
        place_beside.push_back(from_host[port.habits.far_host]);
        from_host[port.habits.far_host] += port.direction == Direction::out;
    }
    const auto beside = [&](const BoardPlan::Port& port) { return port.habits.far_host ? static_cast<uint64_t>(from_host[port.habits.far_host]) : 0; };
    for (const auto& channel : plan.channels)
        log_room[static_cast<size_t>(channel.inport)] += static_cast<uint32_t>(port_slots[static_cast<size_t>(channel.outport)]);
    for (int p = 0; p < ports; ++p) {
        const auto& port = plan.ports[static_cast<size_t>(p)];
        auto n = static_cast<uint64_t>(plan.tasks[static_cast<size_t>(port.task)].nprocs);
        bool in = port.direction == Direction::in;
        at_positions.push_back(in ? out.take(sizeof(uint32_t) * n) : 0);
        at_log.push_back(in ? out.take(sizeof(Delivery) * log_room[static_cast<size_t>(p)]) : 0);
        at_firsts.push_back(in ? out.take(sizeof(FirstOpens) * n) : 0);
        at_looked.push_back(in ? out.take(sizeof(Looked) * n) : 0);
        at_asked.push_back(in ? out.take(sizeof(Asked) * n) : 0);
        at_latest.push_back(in ? out.take(sizeof(uint64_t) * n) : 0);
        at_given.push_back(in ? out.take(sizeof(uint64_t) * log_room[static_cast<size_t>(p)]) : 0);
        const auto in_slots = in ? 0 : static_cast<uint64_t>(port_slots[static_cast<size_t>(p)]);
        at_on.push_back(in ? 0 : out.take(in_slots * links[static_cast<size_t>(p)].size()));
        at_had.push_back(in ? 0 : out.take(in_slots * readers[static_cast<size_t>(p)]));
        at_before.push_back(in ? 0 : out.take(sizeof(uint64_t) * in_slots * beside(port)));
    }
    const uint64_t size = align_up(out.end(), 4096);

    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/board", folder);
    int fd = raw::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    int error = posix_fallocate(fd, 0, static_cast<off_t>(size));
    void* base = MAP_FAILED;
    if (!error) {
        base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED) error = errno;
    }
    raw::close(fd);
    if (error) {
        raw::unlink(path);
        return error;
    }
    auto* bytes = static_cast<unsigned char*>(base);
    auto* board = reinterpret_cast<BoardRecord*>(bytes);
    memcpy(static_cast<void*>(board), static_cast<const void*>(&head), sizeof(head));
    board->layout = kLayout;
    board->size = size;
    board->reserve = reserve_for(folder);
    board->tasks = tasks;
    board->ports = ports;
    board->channels = channels;
    board->links = total_links;
    board->sources = sources;
    board->slots = static_cast<int>(slots);
    board->ranks = ranks;
    copy_text(board->log_file, sizeof(board->log_file), plan.log_file);
    copy_text(board->trace_file, sizeof(board->trace_file), plan.trace_file);
    board->trace_at_once = plan.trace_at_once;
    auto* task_table = reinterpret_cast<TaskRecord*>(bytes + head.at_tasks);
    auto* rank_table = reinterpret_cast<RankRecord*>(bytes + head.at_ranks);
    int next_rank = 0;
    for (int t = 0; t < tasks; ++t) {
        const auto& from = plan.tasks[static_cast<size_t>(t)];
        copy_text(task_table[t].name, sizeof(task_table[t].name), from.name);
        task_table[t].nprocs = from.nprocs;
        task_table[t].folder = from.folder;
        task_table[t].first_rank = next_rank;
        for (int r = 0; r < from.nprocs; ++r, ++next_rank) {
            rank_table[next_rank].task = t;
            rank_table[next_rank].rank = r;
            for (int& held : rank_table[next_rank].holds.slots) held = -1;
        }
    }
    auto* port_table = reinterpret_cast<PortRecord*>(bytes + head.at_ports);
    auto* channel_table = reinterpret_cast<ChannelRecord*>(bytes + head.at_channels);
    auto* link_table = reinterpret_cast<int32_t*>(bytes + head.at_links);
    auto* source_table = reinterpret_cast<SourceRecord*>(bytes + head.at_sources);
    auto* slot_table = reinterpret_cast<SlotRecord*>(bytes + head.at_slots);
    for (int c = 0; c < channels; ++c) {
        const auto& from = plan.channels[static_cast<size_t>(c)];
        ChannelRecord& channel = channel_table[c];
        channel.outport = from.outport;
        channel.inport = from.inport;
        channel.every = from.every;
        channel.offset = from.offset;
        channel.queue = from.queue;
        channel.when_full = from.when_full;
        channel.readers = from.readers;
        channel.readers_given = from.readers_given;
        channel.marks = at_marks[static_cast<size_t>(c)];
        channel.logged = at_logged[static_cast<size_t>(c)];
        channel.offered = at_offered[static_cast<size_t>(c)];
        channel.firsts = at_channel_firsts[static_cast<size_t>(c)];
    }
    int next_link = 0, next_source = 0, next_slot = 0;
    for (int p = 0; p < ports; ++p) {
        const auto& from = plan.ports[static_cast<size_t>(p)];
        const auto& mine = links[static_cast<size_t>(p)];
        PortRecord& port = port_table[p];
        port.task = from.task;
        TaskRecord& task = task_table[from.task];
        if (task.last_port == 0) task.first_port = p;
        task.last_port = p + 1;
        port.direction = from.direction;
        copy_text(port.pattern, sizeof(port.pattern), from.pattern);
        copy_text(port.stands, sizeof(port.stands), from.stands);
        port.stands_components = static_cast<uint32_t>(compared_components(port.stands));
        // (The name of a folder is that of one step.)
        port.fixed = !from.stands.empty() || (!has_wildcard(port.pattern) && !from.habits.is_set);
        if (!from.stands.empty()) port.stand_in = StandIn::given;
        else if (from.may_stand && !port.fixed) port.stand_in = StandIn::undecided;
        port.components = static_cast<uint32_t>(compared_components(port.pattern));
        port.cap = from.cap;
        port.habits = from.habits;
        port.first_link = next_link;
        port.links = static_cast<int32_t>(mine.size());
        int32_t readers_before = 0;
        for (size_t k = 0; k < mine.size(); ++k) {
            link_table[next_link++] = mine[k];
            if (from.direction == Direction::in) {
                channel_table[mine[k]].link = static_cast<int32_t>(k);
                continue;
            }
            channel_table[mine[k]].place = static_cast<int32_t>(k);
            channel_table[mine[k]].had_place = readers_before;
            readers_before += channel_table[mine[k]].readers;
        }
        port.positions = at_positions[static_cast<size_t>(p)];
        port.log = at_log[static_cast<size_t>(p)];
        port.log_room = log_room[static_cast<size_t>(p)];
        port.firsts = at_firsts[static_cast<size_t>(p)];
        port.looked = at_looked[static_cast<size_t>(p)];
        port.asked = at_asked[static_cast<size_t>(p)];
        port.given = at_given[static_cast<size_t>(p)];
        port.latest = at_latest[static_cast<size_t>(p)];
        if (from.direction == Direction::in) continue;
        port.beside = place_beside[static_cast<size_t>(p)];
        port.first_source = next_source;
        port.sources = plan.tasks[static_cast<size_t>(from.task)].nprocs;
        const int each = static_cast<int>(longest[static_cast<size_t>(p)] + spare[static_cast<size_t>(p)]);
        uint64_t on = at_on[static_cast<size_t>(p)], had = at_had[static_cast<size_t>(p)], before = at_before[static_cast<size_t>(p)];
        for (int r = 0; r < port.sources; ++r, ++next_source) {
            SourceRecord& source = source_table[next_source];
            source.port = p;
            source.rank = r;
            for (const int c : mine) {
                const auto& in = plan.ports[static_cast<size_t>(plan.channels[static_cast<size_t>(c)].inport)];
                if (in.habits.listing == Lists::end) source.series = 1;
            }
            source.first_slot = next_slot;
            source.slots = each;
            for (int k = 0; k < each; ++k, ++next_slot) {
                slot_table[next_slot].source = next_source;
                slot_table[next_slot].on = on;
                slot_table[next_slot].had = had;
                on += mine.size();
                had += readers[static_cast<size_t>(p)];
                slot_table[next_slot].origin.before = before;
                before += sizeof(uint64_t) * beside(from);
            }
        }
    }
    for (const auto& begin : plan.begins) {
        SourceRecord& source = source_table[port_table[begin.port].first_source + begin.rank];
        source.first_sequence = source.next_sequence = begin.sequence;
    }
    for (const auto& rest : plan.rests) {
        const ChannelRecord& channel = channel_table[rest.channel];
        const uint64_t next = source_table[port_table[channel.outport].first_source + rest.rank].next_sequence;
        reinterpret_cast<uint64_t*>(bytes + channel.firsts)[rest.rank] = rest.first;
        // As if the step before the next one had been counted last (see queue::offered).
        reinterpret_cast<uint64_t*>(bytes + channel.offered)[rest.rank] = (next & UINT32_MAX) << 32 | rest.offered;
    }
    board->magic = kMagic;
    munmap(base, size);
    return 0;
}

}  // namespace wilkins
