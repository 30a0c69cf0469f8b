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
// Pieces of so many bytes go straight to where they are to be. Their checksum is computed from a core's cache, which
// holds a frame.
constexpr size_t kDirect = 1 << 14;

#ifdef WILKINS_HOOKS
// A frame with one bit that is not as its checksum has it.
Pieces damage(const FrameHead& head, const msghdr& body, std::vector<char>* bytes) {
    for (size_t k = 0; k < body.msg_iovlen; ++k) {
        const auto* const from = static_cast<const char*>(body.msg_iov[k].iov_base);
        bytes->insert(bytes->end(), from, from + body.msg_iov[k].iov_len);
    }
    (*bytes)[bytes->size() / 3] ^= 4;
    Pieces frame = Connection::one_piece(&head, sizeof(head));
    frame.add(bytes->data(), bytes->size());
    return frame;
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
        const msghdr body = *from.next(most);
        FrameHead head{};
        Checksum sum;
        Pieces frame;
        frame.add(&head, sizeof(head));
        for (size_t k = 0; k < body.msg_iovlen; ++k) {
            const iovec& piece = body.msg_iov[k];
            frame.add(piece.iov_base, piece.iov_len);
            if (sums == nullptr) sum.add(piece.iov_base, piece.iov_len);
            head.length += static_cast<uint32_t>(piece.iov_len);
        }
        for (size_t at = 0; sums != nullptr && at < head.length; at += kSummed)
            sum.add_known(*sums++, std::min(kSummed, head.length - at));
        head.complement = ~head.length;
        head.checksum = sum.value();
        const int flags = MSG_NOSIGNAL | (more || !from.is_last() ? MSG_MORE : 0);
#ifdef WILKINS_HOOKS
        std::vector<char> damaged;
        if (fault::flips(most == kMostBytes)) frame = damage(head, body, &damaged);
#endif
        while (!frame.done()) {
            const ssize_t count = sendmsg(fd_, frame.next(UINT64_MAX), flags);
            const int error = errno;
            if (count > 0) frame.advance(static_cast<uint64_t>(count));
            else if (!goes_on(error)) return error;
        }
        from.advance(head.length);
    }
    return 0;
}

int Connection::fill(size_t count, bool ahead) {
    if (!buffer_) buffer_.reset(new unsigned char[kBuffer]);
    if (begin_ == end_ || begin_ + count > kBuffer) {
        memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    while (end_ - begin_ < count) {
        const ssize_t came = recv(fd_, buffer_.get() + end_, (ahead ? kBuffer : begin_ + count) - end_, 0);
        const int error = errno;
        if (came > 0) end_ += static_cast<size_t>(came);
        else if (came == 0) return ECONNRESET;
        else if (!goes_on(error)) return error;
    }
    return 0;
}

int Connection::begin_frame(bool ahead) {
    if (const int error = fill(sizeof(head_), ahead)) return error;
    memcpy(&head_, buffer_.get() + begin_, sizeof(head_));
    begin_ += sizeof(head_);
    if (head_.length != ~head_.complement || head_.length == 0 || head_.length > kMostBytes) return EBADMSG;
    left_ = head_.length;
    sum_ = {};
    damaged_ = false;
    checked_ = left_ <= kMostWords;
    if (!checked_) return 0;
    if (const int error = fill(left_, ahead)) return error;
    sum_.add(buffer_.get() + begin_, left_);
    damaged_ = sum_.value() != head_.checksum;
    return 0;
}

bool Connection::has_come(int milliseconds) const {
    pollfd one = {fd_, POLLIN, 0};
    return left_ > 0 || begin_ < end_ || poll(&one, 1, milliseconds) > 0;
}

int Connection::receive(Pieces to) {
    damaged_ranges_.clear();
    uint64_t at = 0, frame = 0;  // what has come, and where in it the present frame begins
    while (!to.done()) {
        const iovec piece = to.first();
        if (left_ == 0) {
            frame = at;
            if (const int error = begin_frame(piece.iov_len < kDirect)) return error;
        }
        size_t count = std::min(piece.iov_len, left_);
        if (begin_ == end_ && count >= kDirect) {
            const ssize_t came = recv(fd_, piece.iov_base, count, 0);
            const int error = errno;
            if (came == 0) return ECONNRESET;
            if (came < 0 && !goes_on(error)) return error;
            count = static_cast<size_t>(std::max<ssize_t>(came, 0));
        } else {
            if (const int error = begin_ == end_ ? fill(1, true) : 0) return error;
            count = std::min(count, end_ - begin_);
            memcpy(piece.iov_base, buffer_.get() + begin_, count);
            begin_ += count;
        }
        left_ -= count;
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
