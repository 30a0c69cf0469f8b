// A connection between two hosts of a run, on which nothing that was damaged on the way passes for what was sent: it
// carries frames of bytes, each with its checksum. Where the run encrypts, the bytes and their checksum are sealed.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/pieces.hpp"
#include "board/step_token.hpp"
#include "far/checksum.hpp"
#include "far/sealing.hpp"

namespace wilkins::far {

// Before the bytes of a frame.
struct FrameHead {
    uint32_t length;
    uint32_t complement;  // of `length`: who waited for more than comes would wait for ever
    uint32_t checksum;  // 0 where frames are sealed: it would tell something of the bytes, and comes sealed before them
};

class Connection {
public:
    // Of a frame of words, and of one of bytes.
    static constexpr size_t kMostWords = 1 << 16;
    // A kernel that is given 128 MB at once takes twice as long as with pieces that stay in a core's cache, and these
    // are there already when it copies them: their checksum was computed before.
    static constexpr size_t kMostBytes = 1 << 18;

    // The descriptor is the caller's. `interrupted`: asked where a signal interrupts a call; true: that fails with
    // EINTR.
    explicit Connection(int fd, std::function<bool()> interrupted = {});

    // From the first frame on, all are sealed, in both directions.
    void seal_with(std::shared_ptr<Sealing> sealing) { sealing_ = std::move(sealing); }

    // Each returns 0 or an errno. `more`: more follows at once, and the kernel may wait for it.

    // Sends what is checked before any of it is used: what a message says.
    int send_words(Pieces words, bool more = false);
    // Sends what is checked when all of it has come, to where it is to be.
    int send_bytes(Pieces bytes, bool more = false);
    // The same of bytes of which the checksums are known, of each kSummed.
    static constexpr size_t kSummed = 1 << 16;
    int send_summed(Pieces bytes, const std::vector<uint32_t>& sums);

    // EBADMSG: all has come, but something of it, or of what was sent with it, is not what was sent; if that was
    // `send_bytes`, the connection can go on, unless `damaged` is empty: then nobody knows what of it has come.
    // ECONNRESET: the other side has left.
    int receive(Pieces to);
    int receive(void* to, size_t length) { return receive(one_piece(to, length)); }
    // What of the bytes that the last call has received is not what was sent: frames, or parts of them.
    const std::vector<ByteRange>& damaged() const { return damaged_ranges_; }

    // True if something has come that was not received, or comes within so many milliseconds.
    bool has_come(int milliseconds) const;
    // The same, for as long as the socket waits to receive (SO_RCVTIMEO), by the call that takes what comes.
    bool take_what_comes();

    // Memory for frames that have come, and for one that is to be sealed. A connection has its own from the first frame
    // on; where many are at rest, who serves them lends each what it needs meanwhile.
    struct Buffers {
        std::unique_ptr<unsigned char[]> received, sent;
        size_t room = 0;  // of `received`
    };
    void lend(Buffers buffers);
    // What was received and not taken is lost: call where `has_come` says no, or at the end.
    Buffers take_buffers();

    static Pieces one_piece(const void* at, size_t length) {
        Pieces pieces;
        pieces.add(const_cast<void*>(at), length);
        return pieces;
    }

private:
    int send(Pieces from, size_t most, bool more, const uint32_t* sums = nullptr);
    // As recv(); where many bytes are to come, it waits for many.
    ssize_t take(void* to, size_t count);
    int send_frames(Pieces frames, bool more);
    // Sends the frame that is in `buffers_.sent`, behind room for its head and its checksum. `bytes`: as of
    // `send_bytes`.
    int send_sealed(FrameHead head, bool bytes, bool more);
    // Reads into the buffer until it holds so many bytes; `ahead`: and what else has come.
    int fill(size_t count, bool ahead);
    size_t make_buffer();
    int begin_frame(bool ahead);
    // The same of one that is sealed.
    int open_frame(bool ahead);
    bool goes_on(int error) const { return error == EINTR && !(interrupted_ && interrupted_()); }

    int fd_;
    std::function<bool()> interrupted_;
    std::shared_ptr<Sealing> sealing_;
    Buffers buffers_;
    uint64_t to_come_ = 0;        // at least, as the caller knows
    size_t begin_ = 0, end_ = 0;  // of what is in `received`
    FrameHead head_{};            // of the frame that is being read,
    size_t left_ = 0;             // of which so many bytes have not been taken
    size_t behind_ = 0;           // bytes of it that come after these, in the buffer
    bool checked_ = false;        // it was checked when it came
    bool damaged_ = false;
    Checksum sum_;
    std::vector<ByteRange> damaged_ranges_;
};

}  // namespace wilkins::far
