// Frames: a head, then bytes. Small ones are checked in a buffer, large ones where they are to be.
#include "far/connection.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/fault.hpp"

namespace wilkins::far {

namespace {

constexpr size_t kBuffer = sizeof(FrameHead) + Connection::kMostWords;
// A sealed frame is opened when all of it has come.
constexpr size_t kSum = sizeof(uint32_t);
constexpr size_t kSealed = sizeof(FrameHead) + kSum + Connection::kMostBytes + cipher::kTag;
// Pieces of so many bytes go straight to where they are to be. Their checksum is computed from a core's cache, which
// holds a frame.
constexpr size_t kDirect = 1 << 14;
// Frames that one call of the kernel sends, and the bytes for which a receiver is woken where as many are to come: to
// wake it takes as long as to copy 100 kB.
constexpr size_t kFramesAtOnce = 4;
constexpr size_t kWakesFor = 1 << 20;
// It looks by itself after so long (ms): a kernel may be short of memory for them.
constexpr int kLooksAfter = 20;

// As recv(); also where the socket itself waits for some time only.
ssize_t receive_some(int fd, void* to, size_t count) {
    for (;;) {
        const ssize_t came = recv(fd, to, count, 0);
        if (came >= 0 || errno != EAGAIN) return came;
        pollfd comes = {fd, POLLIN, 0};
        if (poll(&comes, 1, -1) < 0) return -1;
    }
}

#ifdef WILKINS_HOOKS
// The bytes of a frame, with one bit that is not as its checksum has it.
void damage(const msghdr& body, std::vector<char>* bytes) {
    for (size_t k = 0; k < body.msg_iovlen; ++k) {
        const auto* const from = static_cast<const char*>(body.msg_iov[k].iov_base);
        bytes->insert(bytes->end(), from, from + body.msg_iov[k].iov_len);
    }
    (*bytes)[bytes->size() / 3] ^= 4;
}
#endif

}  // namespace

Connection::Connection(int fd, std::function<bool()> interrupted) : fd_(fd), interrupted_(std::move(interrupted)) {}

int Connection::send_words(Pieces words, bool more) { return send(std::move(words), kMostWords, more); }

int Connection::send_bytes(Pieces bytes, bool more) { return send(std::move(bytes), kMostBytes, more); }

int Connection::send_summed(Pieces bytes, const std::vector<uint32_t>& sums) {
    static_assert(kMostBytes % kSummed == 0);
    return send(std::move(bytes), kMostBytes, false, sums.data());
}

int Connection::send(Pieces from, size_t most, bool more, const uint32_t* sums) {
    while (!from.done()) {
        FrameHead heads[kFramesAtOnce] = {};
        Pieces frames;
        const size_t at_once = sealing_ ? 1 : kFramesAtOnce;
        if (sealing_ && !buffers_.sent) buffers_.sent.reset(new unsigned char[kSealed]);
#ifdef WILKINS_HOOKS
        std::vector<char> damaged[kFramesAtOnce];
#endif
        for (FrameHead* head = heads; head < heads + at_once && !from.done(); ++head) {
            const msghdr body = *from.next(most);
            Checksum sum;
            for (const iovec* piece = body.msg_iov; piece < body.msg_iov + body.msg_iovlen; ++piece) {
                if (sums == nullptr) sum.add(piece->iov_base, piece->iov_len);
                if (sealing_)
                    memcpy(buffers_.sent.get() + sizeof(*head) + kSum + head->length, piece->iov_base, piece->iov_len);
                head->length += static_cast<uint32_t>(piece->iov_len);
            }
            for (size_t at = 0; sums != nullptr && at < head->length; at += kSummed)
                sum.add_known(*sums++, std::min(kSummed, head->length - at));
            head->complement = ~head->length;
            head->checksum = sum.value();
            if (sealing_) {
                from.advance(head->length);
                continue;
            }
            frames.add(head, sizeof(*head));
#ifdef WILKINS_HOOKS
            if (fault::flips(most == kMostBytes)) {
                damage(body, &damaged[head - heads]);
                frames.add(damaged[head - heads].data(), head->length);
                from.advance(head->length);
                continue;
            }
#endif
            for (const iovec* piece = body.msg_iov; piece < body.msg_iov + body.msg_iovlen; ++piece)
                frames.add(piece->iov_base, piece->iov_len);
            from.advance(head->length);
        }
        const bool another = more || !from.done();
        const int error =
            sealing_ ? send_sealed(heads[0], most == kMostBytes, another) : send_frames(std::move(frames), another);
        if (error != 0) return error;
    }
    return 0;
}

int Connection::send_frames(Pieces frames, bool more) {
    while (!frames.done()) {
        const ssize_t count = sendmsg(fd_, frames.next(UINT64_MAX), MSG_NOSIGNAL | (more ? MSG_MORE : 0));
        const int error = errno;
        if (count > 0) frames.advance(static_cast<uint64_t>(count));
        else if (!goes_on(error)) return error;
    }
    return 0;
}

int Connection::send_sealed(FrameHead head, [[maybe_unused]] bool bytes, bool more) {
    unsigned char* const sealed = buffers_.sent.get() + sizeof(head);
    const size_t length = kSum + head.length;
    memcpy(sealed, &head.checksum, kSum);
    head.checksum = 0;
    memcpy(buffers_.sent.get(), &head, sizeof(head));
    if (!sealing_->seal(&head, sizeof(head), sealed, length, sealed + length)) return EPROTO;
#ifdef WILKINS_HOOKS
    if (fault::flips(bytes)) sealed[length / 3] ^= 4;
#endif
    return send_frames(one_piece(buffers_.sent.get(), sizeof(head) + length + cipher::kTag), more);
}

ssize_t Connection::take(void* to, size_t count) {
    if (to_come_ < kMostWords) return receive_some(fd_, to, count);
    const ssize_t came = recv(fd_, to, count, MSG_DONTWAIT);
    if (came >= 0 || errno != EAGAIN) return came;
    const uint64_t rest = to_come_ - std::min<uint64_t>(to_come_ - 1, end_ - begin_);  // what is not in the buffer
    const int most = static_cast<int>(std::min<uint64_t>(rest, kWakesFor)), one = 1;
    setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &most, sizeof(most));
    pollfd comes = {fd_, POLLIN, 0};
    const int ready = poll(&comes, 1, kLooksAfter);
    const int error = errno;
    setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
    errno = error;
    return ready < 0 ? -1 : receive_some(fd_, to, count);
}

size_t Connection::make_buffer() {
    const size_t room = sealing_ ? kSealed : kBuffer;
    if (!buffers_.received || buffers_.room < room) {
        buffers_.received.reset(new unsigned char[room]);
        buffers_.room = room;
    }
    return room;
}

int Connection::fill(size_t count, bool ahead) {
    const size_t room = make_buffer();
    if (begin_ == end_ || begin_ + count > room) {
        memmove(buffers_.received.get(), buffers_.received.get() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    while (end_ - begin_ < count) {
        const ssize_t came = take(buffers_.received.get() + end_, (ahead ? room : begin_ + count) - end_);
        const int error = errno;
        if (came > 0) end_ += static_cast<size_t>(came);
        else if (came == 0) return ECONNRESET;
        else if (!goes_on(error)) return error;
    }
    return 0;
}

int Connection::begin_frame(bool ahead) {
    if (const int error = fill(sizeof(head_), ahead)) return error;
    memcpy(&head_, buffers_.received.get() + begin_, sizeof(head_));
    begin_ += sizeof(head_);
    if (head_.length != ~head_.complement || head_.length == 0 || head_.length > kMostBytes) return EBADMSG;
    left_ = head_.length;
    sum_ = {};
    damaged_ = false;
    if (sealing_) return open_frame(ahead);
    checked_ = left_ <= kMostWords;
    if (!checked_) return 0;
    if (const int error = fill(left_, ahead)) return error;
    sum_.add(buffers_.received.get() + begin_, left_);
    damaged_ = sum_.value() != head_.checksum;
    return 0;
}

int Connection::open_frame(bool ahead) {
    const size_t length = kSum + left_;
    if (const int error = fill(length + cipher::kTag, ahead)) return error;
    unsigned char* const sealed = buffers_.received.get() + begin_;
    checked_ = true;
    behind_ = cipher::kTag;
    begin_ += kSum;
    damaged_ = !sealing_->open(&head_, sizeof(head_), sealed, length, sealed + length);
    if (damaged_) memset(sealed, 0, length);  // what somebody else has made of it is nobody's to see
    memcpy(&head_.checksum, sealed, kSum);
    sum_.add(sealed + kSum, left_);
    damaged_ = damaged_ || sum_.value() != head_.checksum;
    return 0;
}

void Connection::lend(Buffers buffers) { buffers_ = std::move(buffers); }

Connection::Buffers Connection::take_buffers() {
    begin_ = end_ = 0;
    return std::exchange(buffers_, {});
}

bool Connection::has_come(int milliseconds) const {
    pollfd one = {fd_, POLLIN, 0};
    return left_ > 0 || begin_ < end_ || poll(&one, 1, milliseconds) > 0;
}

bool Connection::take_what_comes() {
    if (left_ > 0 || begin_ < end_) return true;
    const size_t room = make_buffer();
    begin_ = end_ = 0;
    const ssize_t came = recv(fd_, buffers_.received.get(), room, 0);
    if (came > 0) end_ = static_cast<size_t>(came);
    return came >= 0 || (errno != EAGAIN && errno != EINTR);  // who receives sees that it has ended, or failed
}

int Connection::receive(Pieces to) {
    damaged_ranges_.clear();
    uint64_t at = 0, frame = 0;  // what has come, and where in it the present frame begins
    const uint64_t length = to.length();
    while (!to.done()) {
        const iovec piece = to.first();
        to_come_ = length - at;
        if (left_ == 0) {
            frame = at;
            if (const int error = begin_frame(piece.iov_len < kDirect)) {
                damaged_ranges_.clear();  // else who asks for these alone would lack what follows
                return error;
            }
        }
        size_t count = std::min(piece.iov_len, left_);
        if (begin_ == end_ && count >= kDirect) {
            const ssize_t came = take(piece.iov_base, count);
            const int error = errno;
            if (came == 0) return ECONNRESET;
            if (came < 0 && !goes_on(error)) return error;
            count = static_cast<size_t>(std::max<ssize_t>(came, 0));
        } else {
            if (const int error = begin_ == end_ ? fill(1, true) : 0) return error;
            count = std::min(count, end_ - begin_);
            memcpy(piece.iov_base, buffers_.received.get() + begin_, count);
            begin_ += count;
        }
        left_ -= count;
        if (left_ == 0) begin_ += std::exchange(behind_, 0);
        if (!checked_) {
            sum_.add(piece.iov_base, count);
            if (left_ == 0) damaged_ = sum_.value() != head_.checksum;
        }
        to.advance(count);
        at += count;
        if (damaged_ && (left_ == 0 || to.done())) damaged_ranges_.push_back({frame, at});
    }
    return damaged_ranges_.empty() ? 0 : EBADMSG;
}

}  // namespace wilkins::far
