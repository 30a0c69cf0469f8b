#include "python/relay.hpp"

#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "board/border.hpp"
#include "far/sealing.hpp"
#include "queue/queue.hpp"
#include "steps/closing.hpp"
#include "store/store.hpp"

namespace wilkins::relay {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50};
// Within so long the message on trial has to arrive.
constexpr std::chrono::seconds kTrial{10};
constexpr size_t kTrialBytes = 1 << 20;

}  // namespace

void add_others(Pieces* bytes, unsigned char* step, uint64_t size, const Piece* pieces, uint64_t count) {
    uint64_t at = 0;
    for (const Piece* piece = pieces; piece < pieces + count; at = piece++->end)
        bytes->add(step + at, piece->begin - at);
    bytes->add(step + at, size - at);
}

OtherHalf::OtherHalf(int wire) : wire_(wire), connection_(wire, [this] { return python_->interrupted(); }) {}

void OtherHalf::seal_with(const std::shared_ptr<far::Sealing>& sealing) {
    sealing_ = sealing;
    connection_.seal_with(sealing);
}

bool OtherHalf::over() { return python_->interrupted() || process().board.head().stopped; }

template <class Call>
int OtherHalf::unlocked(Call call) {
    PythonUnlocked python;
    python_ = &python;
    return call();
}

int OtherHalf::receive(Pieces to) {
    return unlocked([&] { return connection_.receive(std::move(to)); });
}

int OtherHalf::send_words(const void* words, uint64_t count, bool more) {
    if (const int error = await_sent()) return error;
    return unlocked([&] { return connection_.send_words(Connection::one_piece(words, count), more); });
}

int OtherHalf::receive_bytes(Pieces to) {
    return unlocked([&] {
        if (by_ucx(to))
            return far::receive_bulk(
                connection_, *ucx_, std::move(to), [this] { return over() ? EINTR : 0; }, &damaged_);
        const int error = connection_.receive(std::move(to));
        damaged_ = connection_.damaged();
        return error;
    });
}

int OtherHalf::receive_in_pieces(unsigned char* to, uint64_t length, const far::Came& came) {
    const Pieces all = Connection::one_piece(to, length);
    return unlocked([&] {
        if (by_ucx(all))
            return far::receive_bulk(connection_, *ucx_, all, [this] { return over() ? EINTR : 0; }, &damaged_, came);
        damaged_.clear();
        for (uint64_t at = 0, count; at < length; at += count) {
            count = std::min(kPiece, length - at);
            const int error = connection_.receive(to + at, count);
            for (const ByteRange& range : connection_.damaged()) damaged_.push_back({at + range.begin, at + range.end});
            if (error && (error != EBADMSG || connection_.damaged().empty())) {
                damaged_.clear();
                return error;
            }
            if (damaged_.empty()) came(at + count);
        }
        return damaged_.empty() ? 0 : EBADMSG;
    });
}

bool OtherHalf::by_ucx(const Pieces& bytes) const { return ucx_ && far::is_bulk(bytes); }

int OtherHalf::send_by_ucx(Connection& words, Pieces bytes, const sums::Sums* sums, const far::Ucx::Over& over,
                           const far::Ready& ready) {
    const Clock::time_point begin = Clock::now();
    const uint64_t length = bytes.length();
    const int error = far::send_bulk(words, *ucx_, std::move(bytes), sums, over, ready);
    sent_bytes_ += length;
    seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
    if (seconds_ > 0) rate_ = static_cast<double>(sent_bytes_) / seconds_;
    return error;
}

int OtherHalf::send_bytes(Pieces bytes) {
    return unlocked([&] {
        if (!by_ucx(bytes)) return connection_.send_bytes(std::move(bytes));
        return send_by_ucx(connection_, std::move(bytes), nullptr, [this] { return over() ? EINTR : 0; });
    });
}

int OtherHalf::send_in_pieces(unsigned char* from, uint64_t length, const far::Ready& ready) {
    const Pieces all = Connection::one_piece(from, length);
    return unlocked([&] {
        if (by_ucx(all)) return send_by_ucx(connection_, all, nullptr, [this] { return over() ? EINTR : 0; }, ready);
        for (uint64_t at = 0, count; at < length; at += count) {
            count = std::min(kPiece, length - at);
            int error = ready(at + count, true);
            if (!error) error = connection_.send_bytes(Connection::one_piece(from + at, count), at + count < length);
            if (error) return error;
        }
        return 0;
    });
}

int OtherHalf::send_summed(Pieces bytes, const sums::Sums& sums) {
    return unlocked([&] {
        if (!by_ucx(bytes)) return connection_.send_summed(std::move(bytes), sums);
        return send_by_ucx(connection_, std::move(bytes), &sums, [this] { return over() ? EINTR : 0; });
    });
}

int OtherHalf::send_meanwhile(std::vector<char> words, Pieces bytes) {
    if (const int error = await_sent()) return error;
    sigset_t all, before;  // signals are for the thread that calls
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sent_ = std::async(std::launch::async, [this, wire = wire_, sealing = sealing_, words = std::move(words),
                                            bytes = std::move(bytes)] {
        const auto over = [] { return process().board.head().stopped ? EINTR : 0; };
        Connection connection(wire);
        connection.seal_with(sealing);
        int error = connection.send_words(Connection::one_piece(words.data(), words.size()), true);
        if (!error)
            error = by_ucx(bytes) ? send_by_ucx(connection, bytes, nullptr, over) : connection.send_bytes(bytes);
        if (error) shutdown(wire, SHUT_RDWR);  // both halves wait for what comes
        return error;
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return 0;
}

void OtherHalf::break_off() {
    shutdown(wire_, SHUT_RDWR);
    if (sent_.valid()) sent_.wait();
}

int OtherHalf::await(int milliseconds, bool* came) {
    return unlocked([&] {
        *came = connection_.has_come(milliseconds);
        return !*came && over() ? EINTR : 0;
    });
}

int OtherHalf::await_sent() {
    if (!sent_.valid()) return 0;
    return unlocked([&] {
        while (sent_.wait_for(kLook) != std::future_status::ready)
            if (over()) return EINTR;
        return sent_.get();
    });
}

int OtherHalf::join(const std::string& address, uint64_t tag, bool sends, std::string* said) {
    if (!ucx_) return ENOTCONN;
    return unlocked([&] {
        if (const int error = ucx_->join(address, tag, wire_, said)) return error;
        std::vector<unsigned char> sample(kTrialBytes), bytes(kTrialBytes);
        for (size_t k = 0; k < kTrialBytes; ++k) sample[k] = static_cast<unsigned char>(k * 31 + (k >> 8));
        const Clock::time_point end = Clock::now() + kTrial;
        const auto late = [&] { return over() ? EINTR : Clock::now() > end ? ETIMEDOUT : 0; };
        int error = sends ? ucx_->send(sample.data(), kTrialBytes) : ucx_->receive(bytes.data(), kTrialBytes);
        if (!error) error = ucx_->wait(late);
        if (!error) error = ucx_->flush(late);
        if (!error && !sends && bytes != sample) error = EBADMSG;
        if (error) {
            *said += ": a message on trial fails";
            ucx_->give_up();
        }
        return error;
    });
}

void OtherHalf::drop() {
    if (!ucx_) return;
    unlocked([&] {
        ucx_->give_up();
        return 0;
    });
    static_cast<void>(ucx_.release());  // its library's threads may know it
}

OtherHalf& other_half(int wire) {
    static auto* const half = new OtherHalf(wire);
    return *half;
}

void leave_board() {
    const Process& p = process();
    Board::Lock lock(p.board);
    queue::task_exited(p.board, p.context.task, true, true, log_discarded);
}

}  // namespace wilkins::relay

// Seals all that crosses from now on, with these keys. Returns 0 or an errno.
WILKINS_API(int, wilkins_relay_seal(int wire, const char* keys, int length)) {
    int error = 0;
    const auto sealing = wilkins::far::Sealing::make({keys, static_cast<size_t>(length)}, &error);
    if (error == 0) wilkins::relay::other_half(wire).seal_with(sealing);
    return error;
}
WILKINS_OR(errno)
