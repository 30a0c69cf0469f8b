// The board for the launcher: a C interface for wilkins/transport/board.py.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "board.hpp"
#include "context.hpp"
#include "fault.hpp"
#include "queue.hpp"
#include "report.hpp"
#include "store_parts.hpp"
#include "stuck.hpp"
#include "trace.hpp"

#define WILKINS_API extern "C" __attribute__((visibility("default")))

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

// No exception may cross into C; the only one possible here is want of memory.
template <class F>
int guarded(F f) {
    try {
        return f();
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

}  // namespace

WILKINS_API BoardPlan* wilkins_plan_new() { return new (std::nothrow) BoardPlan(); }

WILKINS_API void wilkins_plan_free(BoardPlan* plan) { delete plan; }

WILKINS_API int wilkins_plan_task(BoardPlan* plan, const char* name, int nprocs) {
    return guarded([=] { return plan->tasks.push_back({name, nprocs}), 0; });
}

WILKINS_API int wilkins_plan_port(BoardPlan* plan, int task, int is_out, const char* pattern, uint64_t cap) {
    return guarded([=] { return plan->ports.push_back({task, is_out ? Direction::out : Direction::in, pattern, cap}), 0; });
}

// Of the port planned last.
WILKINS_API int wilkins_plan_habits(BoardPlan* plan, int mode, unsigned publish, unsigned count, const char* dset, unsigned opens_per_step,
                                    unsigned first) {
    return guarded([=] {
        Habits& habits = plan->ports.back().habits;
        if (strlen(dset) >= sizeof(habits.publish_dset)) return ENAMETOOLONG;
        habits.mode = static_cast<Mode>(mode);
        habits.publish = static_cast<Publish>(publish);
        habits.publish_count = count;
        strcpy(habits.publish_dset, dset);
        habits.opens_per_step = opens_per_step;
        habits.first = static_cast<First>(first);
        return 0;
    });
}

// Of the port planned last: so many of its newest files on disk stay at hand, under second names in `kept` beside the trace.
WILKINS_API void wilkins_plan_keep(BoardPlan* plan, unsigned keep) { plan->ports.back().habits.keep = keep; }

WILKINS_API int wilkins_plan_channel(BoardPlan* plan, int outport, int inport, unsigned every, unsigned queue, unsigned when_full,
                                     int readers, int readers_given) {
    return guarded([=] {
        const auto full = static_cast<WhenFull>(when_full);
        return plan->channels.push_back({outport, inport, every, queue, full, readers, readers_given != 0}), 0;
    });
}

// Of a run that goes on with another one: the rank's first step on the out-port has this number.
WILKINS_API int wilkins_plan_begin(BoardPlan* plan, int outport, int rank, uint64_t sequence) {
    return guarded([=] { return plan->begins.push_back({outport, rank, sequence}), 0; });
}

// Such a run's channel gets no steps of the producer's rank below `first`; `offered` steps with names for its in-port came
// before the rank's first one.
WILKINS_API int wilkins_plan_rest(BoardPlan* plan, int channel, int rank, uint64_t first, uint64_t offered) {
    return guarded([=] { return plan->rests.push_back({channel, rank, first, offered}), 0; });
}

// Events are in the trace file before anybody can act on them.
WILKINS_API void wilkins_plan_trace_at_once(BoardPlan* plan) { plan->trace_at_once = true; }

// `trace_file`: where the run's events go; empty for nowhere.
WILKINS_API int wilkins_plan_create(BoardPlan* plan, const char* folder, const char* log_file, const char* trace_file) {
    return guarded([=] {
        plan->log_file = log_file;
        plan->trace_file = trace_file;
        return create_board(folder, *plan);
    });
}

WILKINS_API Board* wilkins_board_attach(const char* folder, int* error) {
    auto* board = new (std::nothrow) Board();
    *error = board ? board->attach(folder) : ENOMEM;
    if (!*error) {
        if (!context().active) fault::configure("launcher", 0);
        return board;
    }
    delete board;
    return nullptr;
}

WILKINS_API void wilkins_board_detach(Board* board) { delete board; }

WILKINS_API void wilkins_task_started(const Board* board, int task, int one_step) {
    Board::Lock lock(*board);
    queue::task_started(*board, task, one_step != 0);
}

WILKINS_API void wilkins_task_exited(const Board* board, int task, int final, int clean) {
    Board::Lock lock(*board);
    queue::task_exited(*board, task, final != 0, clean != 0, log_discarded);
}

// The launcher's events: when the programs of tasks start and end. They are written at once.
WILKINS_API void wilkins_note(const Board* board, int task, int rank, const char* event, const char* name, int64_t time_ns) {
    Board::Lock lock(*board);
    lock.write_events();
    trace::note(*board, event, task, rank, "-", name, -1, -1, time_ns);
}

// 0: `name` holds the next step's name; EAGAIN: none within the time; ENOENT: none will come.
WILKINS_API int wilkins_next_name(const Board* board, int inport, int milliseconds, char* name) {
    const int64_t until = now_ns() + static_cast<int64_t>(milliseconds) * 1000000;
    Board::Lock lock(*board);
    for (;;) {
        const int slot = queue::next_step(*board, inport);
        if (slot >= 0) {
            strcpy(name, board->slot(slot).name);
            return 0;
        }
        if (!queue::can_produce(*board, inport)) return ENOENT;
        const int64_t left = until - now_ns();
        if (left <= 0 || board->head().stopped) return EAGAIN;
        const uint32_t seen = board->bell(inport);
        lock.release();
        const bool slept = board->sleep(inport, seen, static_cast<int>(left / 1000000) + 1);
        lock.acquire();
        if (!slept) return EAGAIN;
    }
}

// What a launcher asks of one port or task, again and again.
WILKINS_API uint64_t wilkins_port_steps(const Board* board, int port) {
    Board::Lock lock(*board);
    return board->port(port).steps;
}

WILKINS_API int wilkins_port_touched(const Board* board, int port) { return board->port(port).touched.load() != 0; }

WILKINS_API int wilkins_task_saw_end(const Board* board, int task) {
    Board::Lock lock(*board);
    return board->task(task).saw_end != 0;
}

WILKINS_API int wilkins_task_met_failure(const Board* board, int task) {
    Board::Lock lock(*board);
    return board->task(task).met_failure != 0;
}

WILKINS_API unsigned wilkins_steps_opened(const Board* board, int task) {
    Board::Lock lock(*board);
    return queue::steps_opened(*board, task);
}

WILKINS_API void wilkins_stop(const Board* board, const char* reason) {
    Board::Lock lock(*board);
    BoardRecord& head = board->head();
    strncpy(head.stop_reason, reason, sizeof(head.stop_reason) - 1);
    head.stopped = 1;
    for (int p = 0; p < head.ports; ++p) board->ring(p);
}

WILKINS_API size_t wilkins_report(const Board* board, char* text, size_t room) {
    try {
        return hand_out(report(*board), text, room);
    } catch (const std::bad_alloc&) {
        return 0;
    }
}

WILKINS_API size_t wilkins_failure(const Board* board, char* text, size_t room) {
    Board::Lock lock(*board);
    return hand_out(board->head().failure, text, room);
}

WILKINS_API size_t wilkins_stuck(const Board* board, char* text, size_t room) {
    try {
        Board::Lock lock(*board);
        lock.write_events();
        return hand_out(find_stuck(*board), text, room);
    } catch (const std::bad_alloc&) {
        return 0;
    }
}
