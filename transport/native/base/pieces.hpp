// Memory in several places that crosses a connection as one sequence of bytes.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace wilkins {

class Pieces {
public:
    void add(void* at, uint64_t length) {
        if (length > 0) pieces_.push_back({at, length});
    }
    bool done() const { return at_ == pieces_.size(); }
    // The bytes that are left.
    uint64_t length() const {
        uint64_t sum = 0;
        for (size_t k = at_; k < pieces_.size(); ++k) sum += left(k);
        return sum;
    }
    // What is left of the piece that is next.
    iovec first() const { return {static_cast<char*>(pieces_[at_].iov_base) + moved_, left(at_)}; }

    // What one call of sendmsg or recvmsg may move of what is left: no more than `most` bytes. Stays what it is until
    // `advance`.
    const msghdr* next(uint64_t most) {
        constexpr size_t kMostPieces = 512;  // half of what a kernel takes
        const size_t last = std::min(pieces_.size(), at_ + kMostPieces);
        size_t end = at_;
        for (uint64_t room = most; end < last && room > 0; ++end) room -= std::min<uint64_t>(room, left(end));
        // The last one may be longer than what is left of `most`.
        uint64_t before = 0;
        for (size_t k = at_; k + 1 < end; ++k) before += left(k);
        window_.assign(pieces_.begin() + static_cast<std::ptrdiff_t>(at_),
                       pieces_.begin() + static_cast<std::ptrdiff_t>(end));
        window_.front() = {static_cast<char*>(window_.front().iov_base) + moved_, window_.front().iov_len - moved_};
        window_.back().iov_len = std::min<uint64_t>(window_.back().iov_len, most - before);
        message_ = {};
        message_.msg_iov = window_.data();
        message_.msg_iovlen = window_.size();
        return &message_;
    }

    // So much of it has been moved.
    void advance(uint64_t count) {
        while (count > 0) {
            const uint64_t part = std::min(count, left(at_));
            moved_ += part;
            count -= part;
            if (moved_ == pieces_[at_].iov_len) {
                ++at_;
                moved_ = 0;
            }
        }
    }

private:
    uint64_t left(size_t piece) const { return pieces_[piece].iov_len - (piece == at_ ? moved_ : 0); }

    std::vector<iovec> pieces_;
    std::vector<iovec> window_;
    msghdr message_{};
    size_t at_ = 0;       // the piece that is next,
    uint64_t moved_ = 0;  // and how much of it has been moved
};

}  // namespace wilkins
