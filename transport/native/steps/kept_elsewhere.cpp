// Lets go of steps elsewhere: when their slots here hold others, when memory is short there, when their readers have
// ended.
#include "steps/kept_elsewhere.hpp"

#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <thread>

#include "board/process.hpp"
#include "events.hpp"
#include "far/far_wire.hpp"
#include "queue/parts.hpp"
#include "steps/handles.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

// True if the slot holds another step by now, or all bytes of this one. It may be about to be published.
bool is_past(const SlotRecord& slot, uint64_t stamp) {
    return slot.stamp != stamp || slot.state == SlotState::free || slot.lazy.absent.load() == 0;
}

bool may_be_read(const Board& board, const SlotRecord& slot) {
    return queue::needed(board, slot, false) || queue::may_come_again(board, slot);
}

// True if a reader may yet find that a step has changed in memory, which the host that has sent it can mend.
bool may_be_mended(const Board& board, const PortRecord& outport) {
    const Row<SlotRecord> slots = slots_of(board, outport);
    return outport.keys.checked && std::any_of(slots.begin(), slots.end(), [&](const SlotRecord& slot) {
               return slot.state == SlotState::published && may_be_read(board, slot);
           });
}

// Frees the slots of lazy steps that nobody can read any more. `pressed`: the sender's host is short of memory; then
// those of all steps go that are here only because their names might be opened again, as on one host.
void free_slots(bool pressed) {
    const Process& p = process();
    const Board& board = p.board;
    Board::Lock lock(board);
    bool any = false;
    for (const SlotRecord& slot : slots_of(board, board.port(p.first_port))) {
        if (slot.state != SlotState::published || queue::needed(board, slot, pressed)) continue;
        const bool stays = slot.lazy.is != Absence::lazy || slot.lazy.absent.load() == 0 || may_be_read(board, slot) ||
                           queue::is_attached(slot) || queue::claimed(board, slot);
        if (!pressed && stays) continue;
        queue::note_let_go(board, board.index(slot));
        queue::clear_slot(board, board.index(slot));
        any = true;
    }
    if (any) board.ring(p.first_port);
}

}  // namespace

int KeptElsewhere::connect(const char* sender) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (line_) return lost_ ? ECONNRESET : 0;
    far::Hello hello{};
    hello.use = Use::keep;
    far::Opened opened{};
    int error = 0;
    line_ = far::Line::open(sender, hello, &opened, &error);
    if (!line_) return error;
    if (opened.error != 0) return line_.reset(), static_cast<int>(opened.error);
    sigset_t all, before;  // signals are for the thread that calls
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { watch(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return 0;
}

void KeptElsewhere::add(int slot, uint64_t stamp, const StepToken& there) {
    const std::lock_guard<std::mutex> guard(mutex_);
    kept_.push_back({slot, stamp, there});
}

// Call with the lock held. `is_over`: of a slot and the step that was in it, with the board's lock held.
template <class IsOver>
void KeptElsewhere::let_go(IsOver is_over) {
    std::vector<StepToken> over;
    {
        const Board& board = process().board;
        Board::Lock lock(board);
        const auto end = std::partition(kept_.begin(), kept_.end(),
                                        [&](const Kept& one) { return !is_over(board.slot(one.slot), one.stamp); });
        std::transform(end, kept_.end(), std::back_inserter(over), [](const Kept& one) { return one.there; });
        kept_.erase(end, kept_.end());
    }
    if (over.empty()) return;
    if (line_->connection.send_words(far::Connection::one_piece(over.data(), over.size() * sizeof(StepToken))) != 0)
        lose();
}

// The sender has let go of all, or does so now.
void KeptElsewhere::lose() {
    shutdown(line_->wire(), SHUT_RDWR);
    lost_ = true;
    kept_.clear();
}

size_t KeptElsewhere::count() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (kept_.empty()) return 0;
    free_slots(false);
    let_go(is_past);
    return kept_.size();
}

void KeptElsewhere::watch() {
    for (char pressed = 0;;) {
        count();
        if (!line_->connection.has_come(far::kPause)) continue;
        const int error = line_->connection.receive(&pressed, 1);
        const Process& p = process();
        PortRecord& outport = p.board.port(p.first_port);
        if (error == EBADMSG) {
            Board::Lock lock(p.board);
            fail_run(p, event::stays_damaged(outport.pattern));
        }
        const std::lock_guard<std::mutex> guard(mutex_);
        if (error != 0) return lose();
        outport.pressed.fetch_add(1);
        free_slots(true);
    }
}

int KeptElsewhere::await_end(int port) {
    Process& p = process();
    for (;;) {
        bool mends = false;
        {
            Board::Lock lock(p.board);
            sweep_dead_readers(p, port);
            mends = may_be_mended(p.board, p.board.port(port));
        }
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            let_go([&](const SlotRecord& slot, uint64_t stamp) {
                return is_past(slot, stamp) || !may_be_read(p.board, slot);
            });
            if (kept_.empty() && !mends) return 0;
        }
        Board::Lock lock(p.board);
        if (const int error = nap(p, port, lock)) return error;
    }
}

}  // namespace wilkins
