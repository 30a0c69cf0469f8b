// Opens of in-ports: waits for a step, takes it, and says why there is none.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "events.hpp"
#include "names/first_opens.hpp"
#include "names/going_on.hpp"
#include "names/second_pass.hpp"
#include "names/unmatched_names.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/alias.hpp"
#include "queue/failed_opens.hpp"
#include "steps/disk.hpp"
#include "steps/handles.hpp"
#include "store/left_out.hpp"
#include "store/let_go.hpp"
#include "store/stage.hpp"
#include "waiting/members.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

event::Missing why_missing(const Board& board, const PortRecord& inport, const char* name, const queue::Found& found) {
    if (has_alias(inport) && !means(inport, name, "")) return event::Missing::another_stands;
    if (queue::let_go_of(board, inport, name) == queue::LetGo::read) return event::Missing::read;
    if (found.passed) return event::Missing::passed;
    return queue::is_strange(board, inport, name) ? event::Missing::strange : event::Missing::ended;
}

// The rank opens the name, and gets the step `next`, or none: it may have gone by a look that has shown it the step
// before that.
void hint_at_looks(const Process& p, int inport, const char* name, const Look* next) {
    static std::atomic<bool> logged{false};
    const PortRecord& port = p.board.port(inport);
    const Looked& looked = p.board.looked(port, p.context.rank);
    const bool shown = looked.consumed.identity == 0 && looked.consumed_name == hash_name(port, name);
    if (!shown || !in_order(port) || (next && next->size == looked.consumed.size) || logged.exchange(true)) return;
    log_event(event::looked_and_opened(name, next != nullptr));
}

// The rank has got a step of an in-port: it goes on, although one of another in-port was not there when its task opened
// that a second time.
void hint_at_opens(const Process& p, const char* name) {
    for (PortRecord& port : ports_of(p, Direction::in)) {
        if (!port.again) continue;
        port.again = 0;
        log_event(event::opened_again(port.pattern, name));
    }
}

// The rank has got a step, and has left a newer version of a name behind that it has read.
void hint_at_newer(const Process& p, int inport, int index) {
    PortRecord& port = p.board.port(inport);
    const int left = is_logged(port, Once::newer) ? -1 : queue::newer_behind(p.board, inport, index);
    if (left < 0) return;
    const SlotRecord& newer = p.board.slot(left);
    log_once(port, Once::newer,
             event::left_newer(p.board.slot(index).name, newer.name,
                               p.board.port(p.board.source(newer.source).port).pattern));
}

// A program that adds to a file of its own, and has none yet, waits for a step of the name only while one may come. Is
// none to be waited for?
bool is_own(const Process& p, const Match& match, Wait& wait, Board::Lock& lock) {
    PortRecord& inport = p.board.port(match.inport);
    if (!match.makes || !queue::is_strange(p.board, inport, match.name)) return false;
    if (queue::may_be_alias(p.board, inport, match.name) || (has_alias(inport) && !means(inport, match.name, "")))
        return true;
    if (!wait.has_found_nothing(lock)) return false;
    log_once(inport, Once::missing, event::own_file(match.name, inport.pattern));
    return true;
}

}  // namespace

StepFile* read_step(const Match& match, Intent intent, int ranks, int* error) {
    Process& p = process();
    const Board& board = p.board;
    int index = -1;
    uint64_t stamp = 0;
    char name[kNameMax];
    std::optional<Stored> stored;
    {
        Board::Lock lock(board);
        if (!queue::may_read(board, match.inport, p.context.rank)) {
            log_event(event::rank_left_out(match.name));
            *error = EACCES;
            return nullptr;
        }
        note_came(board, p.rank_index);
        if (answer_first(p, match.inport, match.name, intent != Intent::look) != First::wait) {
            *error = ENOENT;
            return nullptr;
        }
        note_member(board, p.rank_index, false);
        Wait wait(p, WaitFor::data, match.inport, match.name);
        for (;;) {
            if (queue::may_be_alias(board, board.port(match.inport), match.name) && !match.makes) {
                OnDisk file;
                lock.release();
                const bool there = disk::look(match.name, &file);
                lock.acquire();
                queue::decide(board, match.inport, p.context.rank, match.name, there ? &file : nullptr);
            } else if (intent != Intent::look) {
                queue::name_opened(board, match.inport, match.name);
            }
            const queue::Found found = queue::find(board, match.inport, p.context.rank, match.name);
            if (!found.chosen && queue::asks_for_double(board, match.inport, p.context.rank, match.name)) {
                *error = EACCES;
                return nullptr;
            }
            const bool over = found.slot < 0 && (found.passed || !queue::can_produce(board, match.inport));
            if ((over || found.slot >= 0) && queue::comes_late(board, match.inport, p.context.rank, found)) {
                fail_run(p, event::begins_late(match.name, board.task(p.context.task).nprocs));
                *error = EACCES;
                return nullptr;
            }
            if (found.slot >= 0) {
                WILKINS_FAULT_POINT("open.found");
                if (!queue::add_hold(board, p.rank_index, found.slot)) {
                    *error = too_many_open(p, match.name);
                    return nullptr;
                }
                WILKINS_FAULT_POINT("open.held");
                if (intent != Intent::look) {
                    if (!found.unread) hint_at_open_again(p, match.inport, board.slot(found.slot).opened_at);
                    else note_went_on(p, WentOn::read, match.name);
                    queue::take(board, match.inport, p.context.rank, found);
                    ++p.me().files;
                    const Look next = {board.slot(found.slot).size.load(), board.slot(found.slot).stamp,
                                       board.slot(found.slot).published_ns};
                    hint_at_looks(p, match.inport, match.name, &next);
                    hint_at_opens(p, match.name);
                    if (found.unread) hint_at_newer(p, match.inport, found.slot);
                    note_consumed(board, match.inport, p.context.rank, found.slot, match.name);
                    queue::opened_in_part(board, match.inport, ranks);
                }
                WILKINS_FAULT_POINT("open.taken");
                index = found.slot;
                break;
            }
            if (over && (stored = find_let_go(p, match, lock))) {
                if (intent != Intent::look) queue::note_consumed_late(board, match.inport, match.name);
                ++p.me().files;
                board.head().moved_at = now_ns();
                break;
            }
            if (over && queue::let_go_of(board, board.port(match.inport), match.name) == queue::LetGo::read) {
                *error = refuse_let_go(p, match);
                return nullptr;
            }
            if (over) {
                queue::note_failed_open(board, match.inport, p.context.rank, match.name, asker());
                PortRecord& inport = board.port(match.inport);
                hint_at_looks(p, match.inport, match.name, nullptr);
                inport.again = in_order(inport) && inport.steps == 1;
                note_found_nothing(p, match.inport, match.name, intent == Intent::look);
                log_event(
                    event::no_such_file(match.name, why_missing(board, board.port(match.inport), match.name, found)));
                *error = ENOENT;
                return nullptr;
            }
            if (is_own(p, match, wait, lock)) {
                *error = ENOENT;
                return nullptr;
            }
            if (learns_left_out(p, match, lock)) continue;
            stage::pass_on(p);
            if ((*error = wait.nap(lock))) return nullptr;
        }
        if (!stored) stamp = board.slot(index).stamp;
        strcpy(name, match.name);
    }
    if (stored) return open_stored(match, *stored, error);
    return open_held(index, stamp, name, error, match.place);
}

}  // namespace wilkins
