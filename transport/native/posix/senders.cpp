// Calls that queue the pages of a file in a socket or a pipe, as they are: what is there until somebody reads it must
// stay what it was.
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "posix/files.hpp"
#include "steps/viewers.hpp"

namespace wilkins::posix {
namespace {

void note_pieces(const struct iovec* pieces, size_t count) {
    for (size_t k = 0; k < count; ++k) viewers::note_sent(pieces[k].iov_base);
}

}  // namespace
}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(ssize_t, sendfile, int to, int from, off_t* offset, size_t count) {
    if (hand_over(to) != 0 || hand_over(from) != 0) return -1;
    viewers::note_sent(from, to);
    return libc::sendfile(to, from, offset, count);
}
WILKINS_OR(-1)
WILKINS_ALIAS(sendfile64, sendfile);

WILKINS_INTERPOSE(ssize_t, splice, int from, off_t* from_at, int to, off_t* to_at, size_t count, unsigned flags) {
    if (hand_over(from) != 0 || hand_over(to) != 0) return -1;
    viewers::note_sent(from, to);
    return libc::splice(from, from_at, to, to_at, count, flags);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, vmsplice, int pipe, const struct iovec* pieces, size_t count, unsigned flags) {
    note_pieces(pieces, count);
    return libc::vmsplice(pipe, pieces, count, flags);
}
WILKINS_OR(-1)

// Other sends copy.

WILKINS_INTERPOSE(ssize_t, send, int socket, const void* bytes, size_t count, int flags) {
    if (flags & MSG_ZEROCOPY) viewers::note_sent(bytes);
    return libc::send(socket, bytes, count, flags);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, sendto, int socket, const void* bytes, size_t count, int flags, const struct sockaddr* to,
                  socklen_t length) {
    if (flags & MSG_ZEROCOPY) viewers::note_sent(bytes);
    return libc::sendto(socket, bytes, count, flags, to, length);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, sendmsg, int socket, const struct msghdr* message, int flags) {
    if ((flags & MSG_ZEROCOPY) && message) note_pieces(message->msg_iov, message->msg_iovlen);
    return libc::sendmsg(socket, message, flags);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, sendmmsg, int socket, struct mmsghdr* messages, unsigned count, int flags) {
    for (unsigned k = 0; (flags & MSG_ZEROCOPY) && k < count; ++k)
        note_pieces(messages[k].msg_hdr.msg_iov, messages[k].msg_hdr.msg_iovlen);
    return libc::sendmmsg(socket, messages, count, flags);
}
WILKINS_OR(-1)
