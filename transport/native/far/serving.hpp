// Serves many connections, of which most are at rest: those take no thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "far/connection.hpp"

namespace wilkins::far {

// A connection with what the other side has open by it. Its destructor closes both. One thread at a time has it.
class Served {
public:
    enum class Next {
        more,   // the connection waits for another message
        over,   // nothing comes any more
        taken,  // another thread has it now, and ends it
    };

    Served() = default;
    virtual ~Served() = default;
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;

    virtual int wire() const = 0;
    virtual Connection& connection() = 0;
    // Receives a message, and does what it asks for, which may take any time: it may need that others are served.
    virtual Next serve_one() = 0;
};

// The connections that are at rest wait in one epoll, and so do the threads that have nothing to do. A thread serves a
// connection until that is quiet. Threads may all have to wait for what a further connection brings (a lock that is
// given back, bytes of a host that waits for this one), so nothing limits their number: where none has become free for
// a moment, there are more. Those that have had nothing to do for some seconds end.
class Serving {
public:
    // The process's one. It lives as long as the process.
    static Serving& here();

    // Serves it from now on. Returns 0 or an errno; then it is ended.
    int add(std::unique_ptr<Served> connection);

    size_t connections() const { return connections_.load(); }
    size_t threads() const { return threads_.load(); }

private:
    Serving();
    int start_thread();
    void work();
    void serve(Served* one, Connection::Buffers* buffers);
    void end(Served* one);
    bool may_leave();
    // Adds threads while none becomes free.
    void watch();
    void wake_watch();

    int epoll_;
    int error_ = 0;  // that there can be none
    std::once_flag watched_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<bool> watching_{false};
    std::atomic<size_t> connections_{0}, threads_{0};
    std::atomic<size_t> idle_{0};     // threads that wait for any connection
    std::atomic<uint64_t> freed_{0};  // how often one has come to wait for any
};

}  // namespace wilkins::far
