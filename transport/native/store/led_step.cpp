// Remembers, for each thread, the step that it is led to.
#include "store/led_step.hpp"

#include <cerrno>
#include <cstring>

#include "names/led.hpp"
#include "queue/queue.hpp"
#include "steps/handles.hpp"

namespace wilkins {

namespace {

__attribute__((tls_model("initial-exec"))) thread_local const StepFile* led = nullptr;

}  // namespace

void lead(const StepFile* step) {
    led = step;
    lead_to(step ? step->name() : nullptr);
}

StepFile* open_led(int* error) {
    const Process& p = process();
    const StepFile::State* held = led->state;
    {
        Board::Lock lock(p.board);
        // In a fork of the process that took it, the step may be gone.
        *error = p.board.slot(held->slot).stamp != held->identity ? ESTALE : 0;
        if (!*error && !queue::add_hold(p.board, p.rank_index, held->slot)) *error = too_many_open(p, held->name);
    }
    StepFile* file = *error ? nullptr : open_held(held->slot, held->identity, held->name, error);
    if (file) file->state->again = true;
    return file;
}

}  // namespace wilkins
