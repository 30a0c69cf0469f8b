// Threads that wait for any of many connections.
#include "far/serving.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#include "base/raw.hpp"
#include "board/border.hpp"

namespace wilkins::far {

namespace {

constexpr size_t kStay = 4;  // threads that do not end: as many connections are served as if each had its own
// For which a thread waits for the next message of the connection that it has served, if another waits for any.
constexpr timeval kQuiet = {0, 2000};
constexpr auto kMoment = std::chrono::milliseconds(2);  // in which a thread becomes free, or there are more
constexpr int kCalm = 50;                               // moments with threads to spare, until nobody looks any more
constexpr int kLeavesAfter = 10'000;                    // ms

}  // namespace

Serving::Serving() : epoll_(epoll_create1(EPOLL_CLOEXEC)), error_(epoll_ < 0 ? errno : 0) {}

Serving& Serving::here() {
    static auto* const serving = new Serving;  // threads use it to the end of the process
    return *serving;
}

int Serving::start_thread() {
    ++threads_;
    try {
        std::thread([this] { work(); }).detach();
    } catch (const std::system_error& error) {
        --threads_;
        return error.code().value();
    }
    return 0;
}

int Serving::add(std::unique_ptr<Served> connection) {
    if (error_ != 0) return error_;
    std::call_once(watched_, [this] { std::thread([this] { watch(); }).detach(); });
    while (threads_ < std::min(kStay, connections_ + 2))  // one waits while the others serve what they have
        if (const int error = start_thread()) {
            if (threads_ == 0) return error;
            break;
        }
    ++connections_;
    setsockopt(connection->wire(), SOL_SOCKET, SO_RCVTIMEO, &kQuiet, sizeof(kQuiet));
    epoll_event waits{};
    waits.events = EPOLLIN | EPOLLONESHOT;
    waits.data.ptr = connection.get();
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, connection->wire(), &waits) == 0) {
        static_cast<void>(connection.release());
        return 0;
    }
    const int error = errno;
    --connections_;
    return error;
}

void Serving::end(Served* one) {
    guarded("the server of files", [&] { return delete one, 0; }, [](int error) { return error; });
    --connections_;
}

void Serving::serve(Served* one, Connection::Buffers* buffers) {
    Connection& connection = one->connection();
    connection.lend(std::move(*buffers));
    for (;;) {
        const Served::Next next =
            guarded("the server of files", [&] { return one->serve_one(); }, [](int) { return Served::Next::over; });
        if (next == Served::Next::taken) {
            --connections_;
            return;
        }
        if (next == Served::Next::over) {
            *buffers = connection.take_buffers();
            return end(one);
        }
        if (!(idle_ > 0 ? connection.take_what_comes() : connection.has_come(0))) break;
    }
    *buffers = connection.take_buffers();
    epoll_event waits{};
    waits.events = EPOLLIN | EPOLLONESHOT;
    waits.data.ptr = one;
    if (epoll_ctl(epoll_, EPOLL_CTL_MOD, one->wire(), &waits) != 0) end(one);
}

void Serving::work() {
    Connection::Buffers buffers;
    for (;;) {
        ++freed_;
        ++idle_;
        epoll_event one{};
        const int count = epoll_wait(epoll_, &one, 1, kLeavesAfter);
        const bool leaves = count == 0 && may_leave();
        if (--idle_ == 0) wake_watch();
        if (leaves) return;
        if (count > 0) serve(static_cast<Served*>(one.data.ptr), &buffers);
    }
}

bool Serving::may_leave() {
    for (size_t now = threads_.load(); now > kStay;)
        if (threads_.compare_exchange_weak(now, now - 1)) return true;
    return false;
}

// (Whoever makes `idle_` 0 looks at `watching_` afterwards, and the one that watches does so the other way round.)
void Serving::wake_watch() {
    if (watching_.exchange(true)) return;
    const std::lock_guard<std::mutex> guard(mutex_);
    changed_.notify_one();
}

void Serving::watch() {
    for (;;) {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [this] { return watching_.load(); });
        }
        for (int calm = 0; calm < kCalm;) {
            const uint64_t before = freed_;
            std::this_thread::sleep_for(kMoment);
            calm = idle_ > 0 ? calm + 1 : 0;
            if (idle_ > 0 || freed_ != before) continue;
            // None to spare, but nothing waits: one does, so that nobody has to look.
            pollfd waits = {epoll_, POLLIN, 0};
            const size_t most = poll(&waits, 1, 0) > 0 ? threads_.load() : 1;
            for (size_t more = std::max<size_t>(most, 1); more > 0; --more)
                if (start_thread() != 0) break;  // later, perhaps
        }
        watching_ = false;
        if (idle_ == 0) wake_watch();
    }
}

}  // namespace wilkins::far
