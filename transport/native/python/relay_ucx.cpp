// How the halves of a relay come to use UCX. A C interface for wilkins/transport/fabric.py.
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "board/border.hpp"
#include "far/ucx.hpp"
#include "python/relay.hpp"

using namespace wilkins;
using namespace wilkins::relay;

namespace {

constexpr size_t kTextMax = 512;

void copy_text(const std::string& from, char* to) {
    strncpy(to, from.c_str(), kTextMax - 1);
    to[kTextMax - 1] = 0;
}

}  // namespace

// Whether a network without the kernel's TCP or any can be used is seen by doing so (see far::Ucx::open). `address`:
// gets what the other half needs, `length` bytes; that is their room before. `said` (char[512]): its version, or why
// not. Returns 0 or an errno. With a wire of -1 nothing is kept: it is a question.
WILKINS_API(int, wilkins_relay_ucx_offer(int wire, const char* library, const char* devices, int direct, char* address,
                                         uint64_t* length, char* said)) {
    std::string text;
    std::unique_ptr<far::Ucx> ucx = far::Ucx::open(library, devices, direct != 0, &text);
    copy_text(text, said);
    if (!ucx) return ENODEV;
    const std::string own = ucx->address();
    const bool fits = own.size() <= *length;
    if (fits) memcpy(address, own.data(), own.size());
    *length = own.size();
    if (wire >= 0 && fits) other_half(wire).offer(std::move(ucx));
    else static_cast<void>(ucx.release());  // its library's threads may know it
    return fits ? 0 : EMSGSIZE;
}
WILKINS_OR(errno)

// Connects to the other half, and moves a message on trial. `said` (char[512]): by what, or why not. Returns 0 or an
// errno.
WILKINS_API(int, wilkins_relay_ucx_join(int wire, const char* address, uint64_t length, uint64_t tag, int sends,
                                        char* said)) {
    std::string text;
    const int error = other_half(wire).join(std::string(address, length), tag, sends != 0, &text);
    copy_text(text, said);
    return error;
}
WILKINS_OR(errno)

// All goes by TCP.
WILKINS_API(int, wilkins_relay_ucx_drop(int wire)) {
    other_half(wire).drop();
    return 0;
}
WILKINS_OR(errno)

// Bytes per second of what has gone by UCX; 0: not known.
WILKINS_API(double, wilkins_relay_ucx_rate(int wire)) { return other_half(wire).rate(); }
WILKINS_OR(0)
