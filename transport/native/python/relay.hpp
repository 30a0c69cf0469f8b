// The two halves of a relay, which carries the steps of a port to another host, and what they say to each other. They
// are C interfaces for wilkins/transport/relay.py.
//
// A step goes from its arena to the socket, and from the socket to an arena: no copy lies between, and each process
// keeps its mappings. The receiver says how many more steps it can take, and what of a step was read last; the sender
// keeps a step until the receiver has it. What that gets is a head, the names, and these bytes; the step is published
// with the others absent, and kept where it is (steps/lazy.hpp). Where its host hands steps on, one that comes whole is
// published first, and what there is of it goes on while the rest comes. Of a port with `compress`, steps come whole,
// and parts of them packed: Python packs and unpacks them (wilkins/compression/crossing.py).
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "board/step_token.hpp"
#include "far/bulk.hpp"
#include "far/connection.hpp"
#include "far/ucx.hpp"
#include "steps/homes.hpp"
#include "steps/sums.hpp"
#include "waiting/wait.hpp"

namespace wilkins::relay {

constexpr uint32_t kMostListed = 1 << 20;

// Bytes that are handed on together while the rest of their step comes: whole frames, so that they are checked then.
#ifdef WILKINS_HOOKS
constexpr uint64_t kPiece = 1 << 18;
#else
constexpr uint64_t kPiece = 1 << 20;
#endif
static_assert(kPiece % far::Connection::kMostBytes == 0);

// The receiver has steps, and can take more. So many ranges follow: what the next step is to bring along.
struct Ask {
    uint64_t come;     // that have come since it has said so, in the order in which they were sent
    uint64_t steps;    // that it can take beyond those that it has asked for
    uint64_t in_part;  // of these, so many more may come with absent bytes; without, it asks for a step whole, or waits
    uint64_t ranges;   // kNoMore: none, nor a step
};
constexpr uint64_t kNoMore = UINT64_MAX;

// Bytes of a step that are sent in fewer bytes.
struct Piece {
    uint64_t begin;
    uint64_t end;
    uint64_t stored;
};

// No name: the stream has ended. The folder, the name, what else was published before it there (see queue::before), the
// ranges that are brought, where others are, the pieces, and checksums follow; then those bytes, and after them the
// pieces'.
struct Head {
    uint32_t folder;  // bytes of the folder in which its producer named the step
    uint32_t name;    // of that name
    uint64_t size;    // of the step
    uint64_t number;  // that its producer has given it
    StepToken token;
    uint64_t published;  // its place in the order of publication, on its host
    uint64_t before;
    uint64_t ranges;
    uint64_t hosts;  // that have bytes of it, which this one has not: their addresses follow the ranges, after that of
                     // the host on which it was made,
    uint64_t runs;   // and then who has which
    uint64_t pieces;
    uint64_t sums;   // of its blocks, which follow, too: it comes whole, and nothing of it packed
    double error;    // the largest difference of an element in these
    double part;     // the largest part of its bound that such a difference is
    double seconds;  // of CPU time that packing has taken
};

// What Python has packed of a step. It stays until the next one has been given.
struct Packing {
    const Piece* pieces;
    uint64_t count;
    const void* bytes;
    uint64_t length;
    double error;
    double part;
    double seconds;
};

// The bytes of a step that are sent as they are, where others are packed.
void add_others(Pieces* bytes, unsigned char* step, uint64_t size, const Piece* pieces, uint64_t count);

// True if a step of which these ranges are brought comes in one piece; else it comes in part.
inline bool is_whole(const std::vector<homes::Range>& brought, uint64_t size) {
    return brought.size() == 1 && brought[0].begin == 0 && brought[0].end == size;
}

using far::Connection;

// The other half of this relay, which waits for it without Python's lock. Each call returns 0 or an errno, as a
// connection's do; EINTR: the run is being stopped, or Python has an exception to raise. What is sent goes after all
// that was sent before.
class OtherHalf {
public:
    explicit OtherHalf(int wire);

    // Before anything else.
    void seal_with(const std::shared_ptr<far::Sealing>& sealing);
    int receive(Pieces to);
    int receive(void* to, uint64_t count) { return receive(Connection::one_piece(to, count)); }
    // The same of what `send_bytes` has sent; EBADMSG: `damaged` says what is not as it was sent.
    int receive_bytes(Pieces to);
    const std::vector<ByteRange>& damaged() const { return damaged_; }
    // The same of bytes in one place, of which others are told as they come.
    int receive_in_pieces(unsigned char* to, uint64_t length, const far::Came& came);
    int send_words(const void* words, uint64_t count, bool more);
    int send_bytes(Pieces bytes);
    // The same of bytes in one place, some of which come meanwhile.
    int send_in_pieces(unsigned char* from, uint64_t length, const far::Ready& ready);
    int send_summed(Pieces bytes, const sums::Sums& sums);
    // Sends words and bytes, by a thread of its own: the bytes stay where they are until the other half has them.
    int send_meanwhile(std::vector<char> words, Pieces bytes);
    // Nothing is sent any more.
    void break_off();
    // Whether something has come by then.
    int await(int milliseconds, bool* came);

    // Long bytes go by UCX once both halves have done all of these (see transport/fabric.py). Else, and after `drop`,
    // all goes by TCP.
    void offer(std::unique_ptr<far::Ucx> ucx) { ucx_ = std::move(ucx); }
    // Connects to the other half's, and moves a message on trial: `sends` it or receives it.
    int join(const std::string& address, uint64_t tag, bool sends, std::string* said);
    void drop();
    // Bytes per second of what UCX has sent; 0: not known.
    double rate() const { return rate_; }

private:
    template <class Call>
    int unlocked(Call call);
    bool over();
    int await_sent();
    int send_by_ucx(Connection& words, Pieces bytes, const sums::Sums* sums, const far::Ucx::Over& over,
                    const far::Ready& ready = {});
    bool by_ucx(const Pieces& bytes) const;

    PythonUnlocked* python_ = nullptr;
    int wire_;
    std::shared_ptr<far::Sealing> sealing_;
    Connection connection_;
    std::future<int> sent_;  // what `send_meanwhile` sends
    std::unique_ptr<far::Ucx> ucx_;
    std::vector<ByteRange> damaged_;
    uint64_t sent_bytes_ = 0;  // by UCX, in so many seconds
    double seconds_ = 0;
    std::atomic<double> rate_{0};
};

// (A relay is a process of its own, and has one.)
OtherHalf& other_half(int wire);

template <class T>
int receive_list(OtherHalf& half, uint64_t count, std::vector<T>* list) {
    if (count > kMostListed) return EPROTO;
    list->resize(count);
    return half.receive(list->data(), count * sizeof(T));
}

// This half does no more for those that it reads from, or that read from it.
void leave_board();

constexpr int kEnd = -1;  // no step will come any more

}  // namespace wilkins::relay
