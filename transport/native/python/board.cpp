// The board for the launcher: a C interface for wilkins/transport/board.py.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "board/board.hpp"
#include "board/border.hpp"
#include "board/context.hpp"
#include "board/create.hpp"
#include "board/trace.hpp"
#include "events.hpp"
#include "python/json.hpp"
#include "python/report.hpp"
#include "queue/answers.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "queue/alias.hpp"
#include "queue/failed_opens.hpp"
#include "steps/closing.hpp"
#include "steps/inherited.hpp"
#include "steps/left_open.hpp"
#include "steps/viewers.hpp"
#include "waiting/circle.hpp"

using namespace wilkins;

namespace {

// As snprintf: the length of the whole text, of which at most room-1 bytes were written.
size_t hand_out(const std::string& text, char* to, size_t room) {
    if (room) {
        const size_t n = text.size() < room ? text.size() : room - 1;
        memcpy(to, text.data(), n);
        to[n] = 0;
    }
    return text.size();
}

constexpr size_t kNoText = SIZE_MAX;  // a text that could not be made; errno says why

// The launcher's board. A launcher has to end runs in which a process stands still, perhaps with the board's lock: it
// waits for that no longer than this, and less while it finds nothing.
struct Watched : Board {
    enum Late { in_time, not_done, not_written };
    mutable std::atomic<Late> late{in_time};
    mutable Arenas* arenas = nullptr;  // made on first use, for as long as the process lives
    mutable int64_t next_look = 0;     // ns: for files that dead processes have left open
    int64_t patience() const { return late == in_time ? 1'000'000'000 : 50'000'000; }
};

class Briefly {
public:
    explicit Briefly(const Watched& board)
        : board_(board), lock_(board, std::defer_lock), held_(lock_.acquire_within(board.patience())) {}
    ~Briefly() { board_.late = !held_ ? Watched::not_done : lock_.release() ? Watched::in_time : Watched::not_written; }
    Briefly(const Briefly&) = delete;
    Briefly& operator=(const Briefly&) = delete;
    Board::Lock* operator->() { return &lock_; }
    Board::Lock& operator*() { return lock_; }
    explicit operator bool() const { return held_; }

private:
    const Watched& board_;
    Board::Lock lock_;
    bool held_;
};

}  // namespace

// of the tables that the library was built with (see plan_table.py, report_table.py).
WILKINS_API(unsigned, wilkins_tables()) { return kPlanTable ^ kReportTable; }
WILKINS_OR(0)

WILKINS_API(int, wilkins_board_create(const char* folder, const plan::Arrays* run)) {
    return create_board(folder, *run);
}
WILKINS_OR(errno)

WILKINS_API(Watched*, wilkins_board_attach(const char* folder, int* error)) {
    auto board = std::make_unique<Watched>();
    *error = board->attach(folder);
    if (*error) return nullptr;
    if (!context().active) fault::configure("launcher", 0);
    return board.release();
}
WILKINS_OR((*error = errno, nullptr))

WILKINS_API(void, wilkins_board_detach(Watched* board)) { delete board; }
WILKINS_OR()

// How the last of the calls below went: 1: it could not have the board's lock in time, and has done nothing; 2: it
// could, but what others did before is not in the trace file yet, as it must be before anybody acts on it.
WILKINS_API(int, wilkins_was_late(const Watched* board)) { return board->late; }
WILKINS_OR(Watched::not_done)

// Who holds the board's lock; if nobody does, who writes the trace, or did so last.
WILKINS_API(size_t, wilkins_holder(const Watched* board, char* text, size_t room)) {
    const BoardRecord& head = board->head();
    const bool writes = holder(head.lock.lock) == 0;
    const HolderRecord& who = writes ? head.trace_lock.holder : head.lock.holder;
    char program[sizeof(who.program)];
    memcpy(program, who.program, sizeof(program));
    program[sizeof(program) - 1] = 0;
    const char* const task = who.task >= 0 && who.task < head.tasks ? board->task(who.task).name : "";
    const bool elsewhere = who.namespace_ != board->pid_namespace();
    return hand_out(as_json(facts::Holder{task, who.rank, who.pid, program, elsewhere, writes ? head.trace_file : ""}),
                    text, room);
}
WILKINS_OR(kNoText)

// A file on disk, by what stat says of it, that an earlier run has left: it keeps no name from standing in.
WILKINS_API(void, wilkins_left_by_run(const Watched* board, int inport, uint64_t device, uint64_t inode, uint64_t size,
                                      int64_t modified_ns)) {
    const Briefly lock(*board);
    if (lock) queue::left_by_run(*board, inport, {device, inode, size, modified_ns});
}
WILKINS_OR()

// The task is started when others have ended.
WILKINS_API(void, wilkins_task_follows(const Watched* board, int task)) { board->task(task).follows = 1; }
WILKINS_OR()

// Symbolic links in the folder in which the task starts lead to steps.
WILKINS_API(void, wilkins_uses_links(const Watched* board, int task)) { board->task(task).uses_links = 1; }
WILKINS_OR()

// `inport`, if it is not negative: for the next step of that, whose name `name` then holds. EAGAIN: there is none, so
// that the program is not to start.
WILKINS_API(int, wilkins_task_started(const Watched* board, int task, int inport, char* name)) {
    const Briefly lock(*board);
    if (!lock) return EAGAIN;
    const int slot = inport < 0 ? -1 : queue::next_step(*board, inport);
    if (inport >= 0 && slot < 0) return EAGAIN;
    queue::task_started(*board, task, inport >= 0);
    if (slot >= 0) strcpy(name, board->slot(slot).name);
    return 0;
}
WILKINS_OR(errno)

// For how long nothing was published, opened or begun, in ns.
WILKINS_API(int64_t, wilkins_still_ns(const Watched* board)) { return now_ns() - board->head().moved_at; }
WILKINS_OR(0)

// True if a rank's looks have found nothing since its last step, or its open of what no loop asks for failed, or a task
// has used names that match no port?
WILKINS_API(int, wilkins_has_polls(const Watched* board)) {
    const Briefly lock(*board);
    if (!lock) return 1;
    for (const RankRecord& rank : ranks_of(*board))
        if (rank.empty_looks.looks > 0 && rank.empty_looks.files == rank.files) return 1;
    for (const RankRecord& rank : ranks_of(*board))
        if (const FailedOpen& open = rank.failed_open; queue::may_go_on(open) && !queue::ends_loop(open)) return 1;
    for (int t = 0; t < board->head().tasks; ++t)
        for (int k = 0; k < kUnmatchedNames; ++k)
            if (board->unmatched_names(t)[k].whole.load(std::memory_order_acquire)) return 1;
    return 0;
}
WILKINS_OR(1)

// Lets a queue grow for a rank that waits for room; 0: none can.
WILKINS_API(int, wilkins_grow(const Watched* board)) {
    const Briefly lock(*board);
    return lock && grow(*board) ? 1 : 0;
}
WILKINS_OR(0)

// Ends the wait of a rank that can go on without what it waits for; 0: there is none.
WILKINS_API(int, wilkins_end_wait(const Watched* board)) {
    const Briefly lock(*board);
    return lock && end_wait(*board) ? 1 : 0;
}
WILKINS_OR(0)

WILKINS_API(void, wilkins_rank_gone(const Watched* board, int task, int rank, int began)) {
    const Briefly lock(*board);
    if (lock) note_gone(*board, board->task(task).first_rank + rank, began != 0);
}
WILKINS_OR()

WILKINS_API(void, wilkins_task_exited(const Watched* board, int task, int final, int clean)) {
    const Briefly lock(*board);
    if (lock) queue::task_exited(*board, task, final != 0, clean != 0, log_discarded);
}
WILKINS_OR()

// The task's program has failed, and is started again. `again`: for the step that it has opened last.
WILKINS_API(void, wilkins_task_failed(const Watched* board, int task, int again)) {
    const Briefly lock(*board);
    if (!lock) return;
    if (again && !queue::give_again(*board, task)) log_event_for(*board, task, 0, event::last_step_gone());
    queue::task_exited(*board, task, false, false, log_discarded);
}
WILKINS_OR()

// The rank's next step on the out-port has this number again.
WILKINS_API(void, wilkins_go_back(const Watched* board, int outport, int rank, uint64_t sequence)) {
    const Briefly lock(*board);
    if (lock) queue::go_back(*board, outport, rank, sequence);
}
WILKINS_OR()

namespace {

bool is_of(const Board& board, const SlotRecord& slot, int task) {
    return task < 0 || board.port(board.source(slot.source).port).task == task;
}

constexpr int64_t kLooks = 100'000'000;  // ns between looks for writers that have died: a launcher may have many turns

// True if the task (-1: any) has left steps to other processes.
bool any_inherited(const Board& board, int task) {
    if (!board.head().leaves.load()) return false;
    for (const SlotRecord& slot : slots_of(board))
        if (slot.inherited && is_of(board, slot, task)) return true;
    return false;
}

// True if there is a file that its program has closed, and may yet write.
bool any_rests(const Board& board, int task) {
    for (const SlotRecord& slot : slots_of(board))
        if (slot.state == SlotState::closed && is_of(board, slot, task)) return true;
    return false;
}

}  // namespace

// Settles files of the task (-1: of all) that dead processes have left open, and publishes steps that were left to
// other processes and that nobody writes any more; `ended`: its program has ended, so all of those, or none if that
// failed. How many are left.
WILKINS_API(int, wilkins_settle_inherited(const Watched* board, int task, int ended, int clean)) {
    board->late = Watched::in_time;
    const int64_t now = now_ns();
    const bool due = ended || now >= board->next_look;
    const bool left_open = due && left_open::any(*board, task);
    if (due) board->next_look = now + kLooks;
    int empty = 0;
    if (due && !ended && any_rests(*board, task)) {
        const Briefly lock(*board);
        if (!lock) return 1;
        empty = queue::publish_long_empty(*board, task);
    }
    if (!left_open && !any_inherited(*board, task)) return empty;
    {
        const Briefly lock(*board);
        if (!lock) return 1;
        if (ended && !clean)
            for (const SlotRecord& slot : slots_of(*board))
                if (slot.inherited && is_of(*board, slot, task)) inherited::remove_file(*board, board->index(slot));
    }
    if (!board->arenas) board->arenas = Arenas::make(*board);
    if (!board->arenas) return 1;
    if (left_open) left_open::settle(*board, *board->arenas, task, ended != 0);
    return ended && !clean ? 0 : empty + inherited::settle(*board, *board->arenas, task, ended != 0);
}
WILKINS_OR(1)

// The launcher's events: when the programs of tasks start and end. They are written at once.
WILKINS_API(void, wilkins_note(const Watched* board, int task, int rank, const char* event, const char* name,
                               int64_t time_ns)) {
    Briefly lock(*board);
    if (!lock) return;
    lock->write_events();
    trace::note(*board, event, task, rank, "-", name, -1, -1, time_ns);
}
WILKINS_OR()

// 0: `name` holds the next step's name; EAGAIN: there is none now; ENOENT: none will come.
WILKINS_API(int, wilkins_next_name(const Watched* board, int inport, char* name)) {
    const Briefly lock(*board);
    if (!lock) return EAGAIN;
    const int slot = queue::next_step(*board, inport);
    if (slot < 0 && !queue::can_produce(*board, inport)) return ENOENT;
    if (slot < 0) {
        TaskRecord& task = board->task(board->port(inport).task);
        if (task.awaits != inport + 1) task.awaits_since = now_ns();
        task.awaits = inport + 1;
        queue::want(*board, inport);
        return EAGAIN;
    }
    strcpy(name, board->slot(slot).name);
    return 0;
}
WILKINS_OR(errno)

// The task, whose program does not run, reads on behind the in-port's next step. 0: done; EAGAIN: there is none now;
// ENOENT: none will come.
WILKINS_API(int, wilkins_pass_step(const Watched* board, int inport)) {
    const Briefly lock(*board);
    if (!lock) return EAGAIN;
    if (queue::pass_step(*board, inport)) return 0;
    if (!queue::can_produce(*board, inport)) return ENOENT;
    queue::want(*board, inport);
    return EAGAIN;
}
WILKINS_OR(errno)

// What a launcher asks of one port or task, again and again.
WILKINS_API(uint64_t, wilkins_port_steps(const Watched* board, int port)) {
    const Briefly lock(*board);
    return lock ? board->port(port).steps : 0;
}
WILKINS_OR(0)

WILKINS_API(int, wilkins_port_touched(const Watched* board, int port)) {
    board->late = Watched::in_time;  // it needs no lock
    return board->port(port).touched.load() != 0;
}
WILKINS_OR(0)

WILKINS_API(size_t, wilkins_failed_open(const Watched* board, int task, char* text, size_t room)) {
    const Briefly lock(*board);
    return hand_out(as_json(lock ? failed_open(*board, task) : std::nullopt), text, room);
}
WILKINS_OR(kNoText)

WILKINS_API(int, wilkins_task_met_failure(const Watched* board, int task)) {
    const Briefly lock(*board);
    return lock && board->task(task).met_failure != 0;
}
WILKINS_OR(0)

// 1: what the task has read since its last start is what it had listed before; 2: it was shown all that there ever will
// be; 0: neither.
WILKINS_API(int, wilkins_read_as_listed(const Watched* board, int task)) {
    const Briefly lock(*board);
    if (!lock) return 0;
    const queue::ReadAsListed read = queue::read_as_listed(*board, task);
    return read.whole ? 2 : read.some ? 1 : 0;
}
WILKINS_OR(0)

WILKINS_API(unsigned, wilkins_steps_opened(const Watched* board, int task)) {
    const Briefly lock(*board);
    return lock ? queue::steps_opened(*board, task) : 0;
}
WILKINS_OR(0)

// The steps of an out-port that are still in memory, one a line, newest first: the number of the arena, and how many
// bytes it holds.
WILKINS_API(size_t, wilkins_last_steps(const Watched* board, int outport, char* text, size_t room)) {
    std::vector<std::pair<uint64_t, std::string>> found;
    {
        const Briefly lock(*board);
        if (!lock) return hand_out("", text, room);
        for (const SlotRecord& slot : slots_of(*board, board->port(outport)))
            if (slot.state == SlotState::published && !slot.removed)
                found.emplace_back(slot.published_stamp,
                                   std::to_string(board->index(slot)) + " " + std::to_string(slot.size.load()) + "\n");
    }
    std::sort(found.rbegin(), found.rend());
    std::string out;
    for (const auto& [stamp, line] : found) out += line;
    return hand_out(out, text, room);
}
WILKINS_OR(kNoText)

// Takes no lock: it must end waits also while a process stands still with it.
WILKINS_API(void, wilkins_stop(const Watched* board)) {
    board->head().stopped = 1;
    for (int p = 0; p < board->head().ports; ++p) board->ring(p);
}
WILKINS_OR()

WILKINS_API(size_t, wilkins_report(const Watched* board, int threads, char* text, size_t room)) {
    Briefly lock(*board);
    return hand_out(lock ? report(*board, *lock, threads != 0) : std::string(), text, room);
}
WILKINS_OR(kNoText)

WILKINS_API(size_t, wilkins_failure(const Watched* board, char* text, size_t room)) {
    const Briefly lock(*board);
    return lock ? hand_out(board->head().failure, text, room) : 0;
}
WILKINS_OR(kNoText)

// True if there may be ranks that wait for ever. It looks at none of their threads.
WILKINS_API(int, wilkins_may_be_stuck(const Watched* board)) {
    Briefly lock(*board);
    if (lock) lock->write_events();
    return lock && Waiting(*board, Waits::tasks, false).any();
}
WILKINS_OR(1)

WILKINS_API(size_t, wilkins_doubtful(const Watched* board, char* text, size_t room)) {
    std::string found;
    {
        const Briefly lock(*board);
        if (lock) found = find_doubtful(*board);
    }
    return hand_out(found, text, room);
}
WILKINS_OR(kNoText)

WILKINS_API(size_t, wilkins_stuck(const Watched* board, char* text, size_t room)) {
    Lasting found;
    {
        Briefly lock(*board);
        if (lock) lock->write_events();
        if (lock) found = find_lasting(*board);
    }
    if (found.viewed.steps > 0)
        found.description += "; no queue can grow, for programs can still see " + std::to_string(found.viewed.steps) +
                             " steps that are done with, which take " + std::to_string(found.viewed.bytes) +
                             " bytes: " + viewers::names(*board) +
                             "; let them end their mappings of these steps, and the processes that have them open, or "
                             "raise the port's 'memory'";
    return hand_out(found.description, text, room);
}
WILKINS_OR(kNoText)
