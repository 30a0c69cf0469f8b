// The process's part in a run: its board, its arenas, its rank.
#pragma once

#include "board/arena.hpp"
#include "board/context.hpp"
#include "board/event.hpp"
#include "board/ranges.hpp"

namespace wilkins {

struct Process {
    Board board;
    Context context;
    Arenas* arenas = nullptr;  // lives as long as the process
    int rank_index = -1;       // in the board's rank table
    int first_here = 0;        // which rank of the task is the first on this host: there all are counted from it
    Folder start;              // where the task's program starts
    int first_port = 0;        // the task's ports lie from here
    int last_port = 0;         // to before here

    int task_rank(int rank) const { return first_here + rank; }  // one of the task, as the program's MPI has it
    int task_rank() const { return task_rank(context.rank); }
    const char* task_name() const { return board.task(context.task).name; }
    RankRecord& me() const { return board.rank(rank_index); }
};

// Ends the run with an error that no program can mend; the first one counts. Call with the board's lock held.
void fail_run(const Process& process, const Event& event);

// The ports of the process's task; none where it is part of no run.
inline auto ports_of(const Process& p) {
    const auto row =
        p.first_port < p.last_port ? Row(p.board.port(p.first_port), p.last_port - p.first_port) : Row<PortRecord>();
    return Chosen(row, [task = p.context.task](const PortRecord& port) { return port.task == task; });
}

// Its in-ports, or its out-ports.
inline auto ports_of(const Process& p, Direction direction) {
    const auto row =
        p.first_port < p.last_port ? Row(p.board.port(p.first_port), p.last_port - p.first_port) : Row<PortRecord>();
    return ports_of(row, p.context.task, direction);
}

// The process's one Process; attached if `context().active`.
Process& process();

// The same; nullptr if nothing has asked for it yet.
Process* known_process();

// Between these no thread attaches the process, which is forked meanwhile.
void hold_attaching();
void let_attach();

}  // namespace wilkins
