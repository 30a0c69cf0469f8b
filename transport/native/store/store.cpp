// Opening steps: what a program's intent and the direction of its port make of a name.
#include "store/store.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "base/fault.hpp"
#include "events.hpp"
#include "far/far_file.hpp"
#include "steps/creating.hpp"
#include "steps/handles.hpp"
#include "steps/joined.hpp"
#include "steps/left_open.hpp"
#include "store/elsewhere.hpp"
#include "store/reading.hpp"
#include "store/stage.hpp"

namespace wilkins {

bool match_name(const char* name, Match* match, Purpose purpose) {
    if (!find_match(name, match, purpose)) return false;
    Process& p = process();
    const bool passes_on = match->outport >= 0 && match->inport >= 0 && p.board.port(match->outport).keys.passes_on;
    if (passes_on) stage::decide(p, match, purpose);
    return match->outport >= 0 || match->inport >= 0;
}

StepFile* open_step(const Match& match, Intent intent, int ranks, int* error) {
    Process& p = process();
    *error = 0;
    const bool creates = intent == Intent::create || intent == Intent::create_exclusive ||
                         intent == Intent::create_missing || intent == Intent::open_or_create;
    const bool produces = match.outport >= 0 && (creates || intent == Intent::update || match.inport < 0);
    if (!produces && creates) {
        log_event(event::creates_inport(match.name));
        *error = EACCES;
        return nullptr;
    }
    p.board.port(produces ? match.outport : match.inport).touched = 1;
    if (produces) left_open::settle_own();
    StepFile* file = nullptr;
    switch (intent) {
        case Intent::create:
        case Intent::create_exclusive:
        case Intent::create_missing: file = create(match, intent, error); break;
        case Intent::open_or_create:
            file = continue_own(match, error);
            if (!file && *error == ENOENT) file = open_elsewhere(match, true, error);
            if (!file && *error == ENOENT) file = create(match, Intent::create, error);
            break;
        case Intent::read:
        case Intent::look:
            file = produces ? joined::open(match, error) : read_step(match, intent, ranks, error);
            if (!file && produces && !*error) file = reread_own(match, error);
            if (!file && produces && *error == ENOENT) {  // another process may have begun to write it since
                file = joined::open(match, error);
                if (!file && !*error) *error = ENOENT;
            }
            if (!file && produces && *error == ENOENT) file = open_elsewhere(match, false, error);
            break;
        case Intent::update:
            if (produces) {
                file = continue_own(match, error);
                if (!file && *error == ENOENT) file = open_elsewhere(match, true, error);
            } else {
                file = read_step(match, Intent::read, ranks, error);
                if (file) file = to_draft(file, match, error);
            }
            break;
    }
    if (file) *error = 0;
    if (file && produces) stage::note_opened(p, match, file);
    return file;
}

void leave_mpi(bool leaves) {
    const Process& p = process();
    if (!p.context.active) return;
    Board::Lock lock(p.board);
    p.me().leaving = leaves ? p.board.self() : 0;
    WILKINS_FAULT_POINT("leave.noted");
    ++p.board.head().moves;
}

}  // namespace wilkins
