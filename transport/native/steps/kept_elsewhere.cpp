// Lets go of steps elsewhere: when their slots here hold others, when memory is short there, when their readers have
// ended.
#include "steps/kept_elsewhere.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "board/process.hpp"
#include "far/far_wire.hpp"
#include "queue/parts.hpp"
#include "steps/handles.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

// True if the step is published, or about to be.
bool is_there(const SlotRecord& slot, uint64_t stamp) { return slot.stamp == stamp && slot.state != SlotState::free; }

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

}  // namespace

void KeptElsewhere::add(int slot, uint64_t stamp, std::unique_ptr<FarFile> keeps) {
    std::lock_guard<std::mutex> guard(mutex_);
    kept_.push_back({slot, stamp, std::move(keeps)});
    if (watched_) return;
    watched_ = true;
    sigset_t all, before;  // signals are for the thread that calls
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { watch(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void KeptElsewhere::let_go() {
    const Board& board = process().board;
    Board::Lock lock(board);
    const auto over = [&](const Kept& one) {
        const SlotRecord& slot = board.slot(one.slot);
        return !is_there(slot, one.stamp) || slot.lazy.absent.load() == 0;
    };
    kept_.erase(std::remove_if(kept_.begin(), kept_.end(), over), kept_.end());
}

size_t KeptElsewhere::count() {
    std::lock_guard<std::mutex> guard(mutex_);
    let_go();
    return kept_.size();
}

// Its host is short of memory: steps of its source that are here only because their names might be opened again go, as
// on one host. False: that host has let go itself, since the relay's other half has ended.
bool KeptElsewhere::heed(const Kept& one) {
    char byte = 0;
    const ssize_t count = recv(one.keeps->wire(), &byte, 1, MSG_DONTWAIT);
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    const Board& board = process().board;
    Board::Lock lock(board);
    const SourceRecord& source = board.source(board.slot(one.slot).source);
    board.port(source.port).pressed.fetch_add(1);
    for (const SlotRecord& slot : slots_of(board, source)) {
        if (slot.state != SlotState::published || queue::needed(board, slot, true)) continue;
        queue::note_let_go(board, board.index(slot));
        queue::clear_slot(board, board.index(slot));
    }
    board.ring(source.port);
    return true;
}

void KeptElsewhere::watch() {
    for (;;) {
        std::vector<pollfd> wires;
        {
            std::lock_guard<std::mutex> guard(mutex_);
            let_go();
            for (const Kept& one : kept_) wires.push_back({one.keeps->wire(), POLLIN, 0});
        }
        if (poll(wires.data(), wires.size(), far::kPause) <= 0) continue;
        std::lock_guard<std::mutex> guard(mutex_);
        kept_.erase(std::remove_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return !heed(one); }),
                    kept_.end());
    }
}

int KeptElsewhere::await_end(int port) {
    Process& p = process();
    for (;;) {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            let_go();
            Board::Lock lock(p.board);
            sweep_dead_readers(p, port);
            const auto over = [&](const Kept& one) { return !may_be_read(p.board, p.board.slot(one.slot)); };
            kept_.erase(std::remove_if(kept_.begin(), kept_.end(), over), kept_.end());
            if (kept_.empty() && !may_be_mended(p.board, p.board.port(port))) return 0;
        }
        Board::Lock lock(p.board);
        if (const int error = nap(p, port, lock)) return error;
    }
}

}  // namespace wilkins
