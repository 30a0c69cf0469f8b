// Connections to servers of files: new ones, and those that wait for another file.
#include "far/line.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "base/raw.hpp"
#include "far/far_wire.hpp"
#include "far/handshake.hpp"

namespace wilkins::far {

namespace {

// Descriptors that a program does not know of are few.
constexpr size_t kMostOfServer = 2, kMostWaiting = 8;
// A program that has closed its standard streams may rely on getting their numbers.
constexpr int kFirst = 3;

// Also where a handler of the program's interrupts the call, which goes on by itself then. Returns an errno.
int connect_whole(int wire, const addrinfo& to) {
    if (connect(wire, to.ai_addr, to.ai_addrlen) == 0) return 0;
    if (errno != EINTR) return errno;
    pollfd done = {wire, POLLOUT, 0};
    while (poll(&done, 1, -1) < 0)
        if (errno != EINTR) return errno;
    int error = 0;
    socklen_t length = sizeof(error);
    return getsockopt(wire, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

int connect_to(const std::string& address, const std::string& port, int* error) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(address.c_str(), port.c_str(), &wanted, &found) != 0) {
        *error = EHOSTUNREACH;
        return -1;
    }
    int wire = -1;
    *error = EHOSTUNREACH;
    for (const addrinfo* one = found; one != nullptr && wire < 0; one = one->ai_next) {
        wire = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
        if (wire < 0 || (*error = connect_whole(wire, *one)) == 0) continue;
        raw::close(wire);
        wire = -1;
    }
    freeaddrinfo(found);
    if (wire < 0) return -1;
    *error = 0;
    const int now = 1;
    setsockopt(wire, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
    return wire;
}

// The words of the handshake, before any frame. Each returns an errno.
int receive_plain(int wire, handshake::Bytes32& bytes) {
    for (size_t came = 0; came < bytes.size();) {
        const ssize_t count = recv(wire, bytes.data() + came, bytes.size() - came, 0);
        if (count == 0) return ECONNRESET;
        if (count < 0 && errno != EINTR) return errno;
        came += count > 0 ? static_cast<size_t>(count) : 0;
    }
    return 0;
}

int send_plain(int wire, const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
        const ssize_t count = send(wire, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_MORE);
        if (count < 0 && errno != EINTR) return errno;
        sent += count > 0 ? static_cast<size_t>(count) : 0;
    }
    return 0;
}

struct Waiting {
    std::string where;
    std::unique_ptr<Line> line;
};

// Those that wait, the latest last. In a fork they are none of its own.
struct Lines {
    std::mutex mutex;
    std::vector<Waiting> waiting;
};
Lines& lines = *new Lines;  // used to the end of the process

}  // namespace

Line::Line(int wire) : connection(wire), wire_(wire), process_(getpid()) {
    struct stat is{};
    if (raw::fstat(wire, &is) != 0) return;
    device_ = is.st_dev;
    inode_ = is.st_ino;
}

Line::~Line() {
    if (is_there()) raw::close(wire_);
}

bool Line::is_there() const {
    struct stat is{};
    return raw::fstat(wire_, &is) == 0 && is.st_dev == device_ && is.st_ino == inode_;
}

bool Line::is_ours() const { return process_ == getpid() && is_there(); }

// (Nobody waits for the lock: whoever had it as this process was forked is not in it.)
std::unique_ptr<Line> Line::take(const std::string& where) {
    const std::unique_lock<std::mutex> lock(lines.mutex, std::try_to_lock);
    if (!lock) return nullptr;
    std::vector<Waiting>& all = lines.waiting;
    const auto ends = [](const Waiting& one) { return !one.line->is_ours(); };
    all.erase(std::remove_if(all.begin(), all.end(), ends), all.end());
    const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Waiting& one) { return one.where == where; });
    if (found == all.rend()) return nullptr;
    std::unique_ptr<Line> line = std::move(found->line);
    all.erase(std::next(found).base());
    return line;
}

void Line::keep(const std::string& where, std::unique_ptr<Line> line) {
    const std::unique_lock<std::mutex> lock(lines.mutex, std::try_to_lock);
    if (!lock || line->wire_ < kFirst || !line->is_ours()) return;
    std::vector<Waiting>& all = lines.waiting;
    const auto of_server =
        std::count_if(all.begin(), all.end(), [&](const Waiting& one) { return one.where == where; });
    if (of_server >= static_cast<std::ptrdiff_t>(kMostOfServer)) return;
    if (all.size() >= kMostWaiting) all.erase(all.begin());
    line->connection.take_buffers();
    all.push_back({where, std::move(line)});
}

int Line::greet(const Hello& hello, Opened* opened) {
    const int error = connection.send_words(Connection::one_piece(&hello, sizeof(hello)));
    return error != 0 ? error : connection.receive(opened, sizeof(*opened));
}

std::unique_ptr<Line> Line::open(const std::string& where, const Hello& hello, Opened* opened, int* error) {
    *error = 0;
    // The server may have ended it, or have ended itself: another one tells.
    while (std::unique_ptr<Line> line = take(where))
        if (line->greet(hello, opened) == 0) return line;
    return connect(where, hello, opened, error);
}

std::unique_ptr<Line> Line::connect(const std::string& where, const Hello& hello, Opened* opened, int* error) {
    const size_t colon = where.rfind(':');
    if (colon == std::string::npos) {
        *error = EHOSTUNREACH;
        return nullptr;
    }
    const int wire = connect_to(where.substr(0, colon), where.substr(colon + 1), error);
    if (wire < 0) return nullptr;
    auto line = std::make_unique<Line>(wire);
    const handshake::RunKey run = handshake::run_key();
    handshake::Bytes32 challenge{}, proof{};
    handshake::Answer answer{};
    *error = run.key.empty() ? EACCES : receive_plain(wire, challenge);
    if (*error == 0) {
        answer = handshake::answer(run.key, challenge);
        *error = answer.words.empty() ? EACCES : 0;
    }
    if (*error == 0 && run.encrypts) line->connection.seal_with(Sealing::make(answer.frame_keys, error));
    if (*error == 0) *error = send_plain(wire, answer.words);
    if (*error == 0) *error = line->connection.send_words(Connection::one_piece(&hello, sizeof(hello)));
    if (*error == 0) *error = receive_plain(wire, proof);
    if (*error == 0 && proof != answer.expected) *error = EPROTO;  // whoever listens there is not of this run
    if (*error == 0) *error = line->connection.receive(opened, sizeof(*opened));
    return *error == 0 ? std::move(line) : nullptr;
}

}  // namespace wilkins::far
