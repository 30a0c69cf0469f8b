// Bytes of a step between the two halves of a relay by UCX, with what TCP carries beside them: pieces too short to be
// worth a message, and the checksums of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/pieces.hpp"
#include "board/step_token.hpp"
#include "far/connection.hpp"
#include "far/ucx.hpp"

namespace wilkins::far {

// Told of how many bytes have come, all of them as they were sent. It may be told of none: where some were damaged.
using Came = std::function<void(uint64_t)>;
// Asked before bytes are sent up to this one, which may come meanwhile. `waits`: until they are there. Returns 0, an
// errno, or EAGAIN: they are not, and `waits` is false.
using Ready = std::function<int(uint64_t, bool waits)>;

// True if some piece is long enough for UCX. Both halves have pieces of the same lengths, and come to the same answer.
bool is_bulk(Pieces pieces);

// Sends such bytes. `sums`: of each Connection::kSummed of them, where they are known; else nullptr. Returns when the
// other half has all. Returns 0 or an errno.
int send_bulk(Connection& words, Ucx& ucx, Pieces bytes, const std::vector<uint32_t>* sums, const Ucx::Over& over,
              const Ready& ready = {});

// Receives what that has sent. EBADMSG: something was damaged; `damaged` says what, and the connections can go on, or
// it is empty, and they cannot.
int receive_bulk(Connection& words, Ucx& ucx, Pieces to, const Ucx::Over& over, std::vector<ByteRange>* damaged,
                 const Came& came = {});

}  // namespace wilkins::far
