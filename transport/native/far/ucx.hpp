// The site's UCX, if it has one: messages of bulk bytes between the two halves of a relay, past the kernel's sockets
// where the network can do that.
//
// UCX replaces functions for memory in the process that loads it and brings threads and signal handlers. So relays load
// it, and no program of a workflow does. Its library is opened by path at run time: a site's UCX belongs to its
// network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace wilkins::far {

// An endpoint to the other half of a relay. It is used by one thread at a time.
class Ucx {
public:
    // Asked while a call waits: an errno that ends the wait, or 0.
    using Over = std::function<int()>;

    // `library`: path or name of libucp. `devices`: the network devices that it may use, by UCX's names, with commas
    // between them; empty: all. `direct`: only a network without the kernel's TCP will do. nullptr: it cannot be used
    // here, `said` says for what reason; else it says its version.
    static std::unique_ptr<Ucx> open(const std::string& library, const std::string& devices, bool direct,
                                     std::string* said);
    virtual ~Ucx() = default;
    Ucx(const Ucx&) = delete;
    Ucx& operator=(const Ucx&) = delete;

    // What the other half needs to connect to this one.
    virtual std::string address() const = 0;
    // Connects. `wire`: the TCP connection to the same half; where that ends, waits end. `tag`: of the first message;
    // both halves count from it. Returns 0 or an errno. `said`: by which transports, or why not.
    virtual int join(const std::string& address, uint64_t tag, int wire, std::string* said) = 0;

    // Each returns 0 or an errno. ECONNRESET: the other half has left; EPROTO: a message has another length.

    // A message begins to be sent or received. Its bytes stay where they are until it is over.
    virtual int send(const void* bytes, size_t length) = 0;
    virtual int receive(void* bytes, size_t length) = 0;
    // Messages that have begun and for which nobody has waited.
    virtual size_t under_way() const = 0;
    // Lets messages move on, without waiting.
    virtual void move_on() = 0;
    // Waits until the oldest message is over.
    virtual int wait(const Over& over) = 0;
    // Waits until nothing that the other half needs is left in this process.
    virtual int flush(const Over& over) = 0;
    // Ends all messages. When it returns, no network writes to their memory any more.
    virtual void give_up() = 0;

protected:
    Ucx() = default;
};

}  // namespace wilkins::far
