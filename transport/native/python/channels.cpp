// Steps as objects in memory, for programs written for Wilkins: a C interface for wilkins/transport/memory.py.
#include <cerrno>
#include <cstring>

#include "board/border.hpp"
#include "queue/queue.hpp"
#include "queue/alias.hpp"
#include "steps/handles.hpp"
#include "steps/open_files.hpp"
#include "store/led_step.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

using namespace wilkins;

// The in-port's next step, to be held until it is released: 0; ENOENT: none will come; EAGAIN: none now (without
// `wait`); EMFILE: shared memory is full; EINTR: the run is being stopped, or Python has an exception to raise. Leaves
// the step before.
WILKINS_API(int, wilkins_channels_take(int index, int waits, StepFile** step)) {
    Process& p = process();
    const Board& board = p.board;
    const int rank = p.context.rank;
    char name[kNameMax];
    int slot;
    uint64_t stamp;
    {
        Board::Lock lock(board);
        queue::leave(board, index, rank);
        Wait wait(p, WaitFor::data, index, board.port(index).pattern);
        for (;;) {
            if (board.head().stopped) return EINTR;
            slot = queue::next_choice(board, index, rank);
            if (waits) {
                if (slot < 0 && (queue::has_its_step(board, index, rank) || !queue::can_produce(board, index)))
                    return ENOENT;
            } else {
                const queue::Answer answer = queue::poll(board, index, rank);
                if (answer == queue::Answer::ended) return ENOENT;
                if (answer == queue::Answer::none || slot < 0) return EAGAIN;
            }
            if (slot >= 0) break;
            if (const int error = wait.nap(lock)) return error;
        }
        if (!queue::add_hold(board, p.rank_index, slot)) return too_many_open(p, board.slot(slot).name);
        queue::choose(board, index, rank, !waits);
        ++p.me().files;
        stamp = board.slot(slot).stamp;
        strcpy(name, name_for(board.port(index), board.slot(slot)));
    }
    int error = 0;
    *step = open_held(slot, stamp, name, &error);
    if (error) return error;
    (*step)->prepare_read(0, (*step)->eof());  // a lazy step comes whole: nobody sees which bytes the program looks at
    if ((error = (*step)->settle()) != 0) close_step(*step);
    return error;
}
WILKINS_OR(errno)

WILKINS_API(const char*, wilkins_channels_name(const StepFile* step)) { return step->name(); }
WILKINS_OR(nullptr)

// Its number within what its rank of the producer publishes on its port.
// As its producer counts, on whichever host.
WILKINS_API(uint64_t, wilkins_channels_sequence(const StepFile* step)) {
    const SlotRecord& slot = process().board.slot(step->state->slot);
    return slot.numbered ? slot.numbered - 1 : slot.sequence;
}
WILKINS_OR(0)

// The file in memory: its first byte, and how many there are.
WILKINS_API(const unsigned char*, wilkins_channels_bytes(const StepFile* step, uint64_t* size)) {
    *size = step->eof();
    return step->data();
}
WILKINS_OR(nullptr)

// Ends the hold on a step that was taken.
WILKINS_API(void, wilkins_channels_release(int index, StepFile* step)) {
    const Process& p = process();
    if (step->state->mine()) {
        Board::Lock lock(p.board);
        queue::finish(p.board, index, p.context.rank, step->state->slot);
    }
    close_step(step);
}
WILKINS_OR()

WILKINS_API(void, wilkins_channels_lead(const StepFile* step)) { lead(step); }
WILKINS_OR()

// The program wants so many steps to be queued beyond what the workflow file allows.
WILKINS_API(void, wilkins_channels_ahead(int index, unsigned steps)) {
    const Process& p = process();
    Board::Lock lock(p.board);
    PortRecord& port = p.board.port(index);
    port.ahead = steps;
    for (const ChannelRecord& channel : channels_of(p.board, port)) p.board.ring(channel.outport);
}
WILKINS_OR()

// True if this process produces files of the name in memory.
WILKINS_API(int, wilkins_channels_produces(const char* name)) {
    Match match;
    return match_name(name, &match) && match.outport >= 0 ? 1 : 0;
}
WILKINS_OR(0)

// Memory of the step of this name that the process is writing, or nullptr: it stays until the handle is closed, which
// may be after the step is published.
WILKINS_API(StepFile*, wilkins_channels_written(const char* name)) {
    Match match;
    return match_name(name, &match) ? find_written(match) : nullptr;
}
WILKINS_OR(nullptr)

// Memory for bytes of the step that the program will write all of.
WILKINS_API(unsigned char*, wilkins_channels_prepare(StepFile* step, uint64_t offset, uint64_t count, int* error)) {
    *error = step->prepare_write(offset, count, true);
    return *error ? nullptr : step->data() + offset;
}
WILKINS_OR((*error = errno, nullptr))

WILKINS_API(void, wilkins_channels_close(StepFile* step)) { close_step(step); }
WILKINS_OR()

// The step that is being written will never be published.
WILKINS_API(void, wilkins_channels_give_up(const StepFile* step)) {
    process().board.slot(step->state->slot).broken.store(ECANCELED);
}
WILKINS_OR()

// Bytes that this rank's copies have moved so far; counts a copy of the program's own first.
WILKINS_API(uint64_t, wilkins_channels_moved(uint64_t nanoseconds, uint64_t bytes)) {
    account_copying(nanoseconds, bytes);
    return process().me().moved_bytes.load(std::memory_order_relaxed);
}
WILKINS_OR(0)
