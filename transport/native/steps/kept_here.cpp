// Keeps steps by handles like those of readers.
#include "steps/kept_here.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "board/process.hpp"
#include "events.hpp"
#include "far/far_wire.hpp"
#include "steps/closing.hpp"
#include "steps/handles.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

void note_kept(const StepFile& step, int more) {
    const Board& board = process().board;
    Board::Lock lock(board);
    board.slot(step.token().slot).kept_for += static_cast<uint32_t>(more);
}

void close_kept(StepFile* step) {
    note_kept(*step, -1);
    close_step(step);
}

}  // namespace

KeptHere& KeptHere::all() {
    static auto* const all = new KeptHere;  // threads use it to the end of the process
    return *all;
}

int KeptHere::add(const StepFile& step) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (is_over_) return ECONNRESET;
    const Board& board = process().board;
    if (pressed_ == nullptr) pressed_ = &board.port(board.source(board.slot(step.token().slot).source).port).pressed;
    int error = 0;
    StepFile* const kept = hold_too(step, &error);
    if (kept == nullptr) return error;
    note_kept(*kept, 1);
    kept_.push_back(kept);
    return 0;
}

// Where the steps have come from a third host, that host's want of memory counts, too.
bool KeptHere::is_memory_short() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (kept_.empty()) return false;
    const uint32_t before = std::exchange(heard_, pressed_->load());
    if (heard_ != before) return true;
    const Board& board = process().board;
    Board::Lock lock(board);
    const auto ranks = ranks_of(board);
    return std::any_of(ranks.begin(), ranks.end(),
                       [](const RankRecord& rank) { return waits_for(rank, WaitFor::memory); });
}

void KeptHere::let_go(const StepToken& token) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const StepFile* one) {
        return one->token().slot == token.slot && one->token().stamp == token.stamp;
    });
    if (found == kept_.end()) return;
    close_kept(*found);
    kept_.erase(found);
}

void KeptHere::end(int error) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (error == EBADMSG && !kept_.empty()) {  // which of them it lets go of is not known
        const Process& p = process();
        Board::Lock lock(p.board);
        fail_run(p, event::stays_damaged(p.board.port(p.first_port).pattern));
    }
    is_over_ = true;
    for (StepFile* const one : kept_) close_kept(one);
    kept_.clear();
}

void KeptHere::serve(far::Connection& other_half) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kPause{far::kPause};
    Clock::time_point look = Clock::now() + kPause;
    int error = 0;
    while (error == 0) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(look - Clock::now());
        StepToken token{};
        if (left.count() > 0) {
            if (!other_half.has_come(static_cast<int>(left.count()))) continue;
            error = other_half.receive(&token, sizeof(token));
            if (error == 0) let_go(token);
        } else {
            look = Clock::now() + kPause;
            if (is_memory_short()) error = other_half.send_words(far::Connection::one_piece("", 1));
        }
    }
    end(error);
}

}  // namespace wilkins
