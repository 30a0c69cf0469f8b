// UCX by its tagged messages. A long message is a rendezvous: the receiver's network adapter gets the bytes from the
// sender's memory, where it can. Both memories are arenas, which are registered with the adapter once.
#include "far/ucx.hpp"

#ifdef WILKINS_UCX

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "board/arena.hpp"
#include "board/process.hpp"

namespace wilkins::far {

namespace {

// A wait looks around by itself after so long (ms): UCX may miss a wake-up, and a stopped run sends none.
constexpr int kLook = 50;
// A connection that is given up is closed within so many looks.
constexpr int kLooksToClose = 40;

// clang-format off
#define WILKINS_UCX_FUNCTIONS(X) \
    X(ucp_config_read) \
    X(ucp_config_modify) \
    X(ucp_config_release) \
    X(ucp_init_version) \
    X(ucp_worker_create) \
    X(ucp_worker_query) \
    X(ucp_worker_get_efd) \
    X(ucp_worker_arm) \
    X(ucp_worker_progress) \
    X(ucp_worker_flush_nbx) \
    X(ucp_ep_create) \
    X(ucp_ep_close_nbx) \
    X(ucp_ep_print_info) \
    X(ucp_tag_send_nbx) \
    X(ucp_tag_recv_nbx) \
    X(ucp_tag_recv_request_test) \
    X(ucp_request_check_status) \
    X(ucp_request_cancel) \
    X(ucp_request_free) \
    X(ucp_mem_map) \
    X(ucp_mem_unmap) \
    X(ucp_get_version_string)
// clang-format on

struct Functions {
#define WILKINS_UCX_MEMBER(name) decltype(&::name) name = nullptr;
    WILKINS_UCX_FUNCTIONS(WILKINS_UCX_MEMBER)
#undef WILKINS_UCX_MEMBER

    bool load(const std::string& path, std::string* why) {
        void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            *why = dlerror();
            return false;
        }
        bool all = true;
#define WILKINS_UCX_LOAD(name)                                                          \
    name = reinterpret_cast<decltype(name)>(dlsym(library, #name));                     \
    if (name == nullptr) *why = path + " has no " #name ": it needs UCX 1.13 or later"; \
    all = all && name != nullptr;
        WILKINS_UCX_FUNCTIONS(WILKINS_UCX_LOAD)
#undef WILKINS_UCX_LOAD
        return all;
    }
};

// Threads that UCX starts meanwhile take no signals: these are for the thread that calls.
class SignalsElsewhere {
public:
    SignalsElsewhere() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsElsewhere() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsElsewhere(const SignalsElsewhere&) = delete;
    SignalsElsewhere& operator=(const SignalsElsewhere&) = delete;

private:
    sigset_t before_;
};

// A status of UCX's as an errno.
int errno_of(ucs_status_t status) {
    switch (status) {
        case UCS_OK: return 0;
        case UCS_ERR_NO_MEMORY: return ENOMEM;
        case UCS_ERR_MESSAGE_TRUNCATED: return EPROTO;
        default: return ECONNRESET;  // as TCP says it, whatever has ended the connection
    }
}

// The transports in UCX's account of an endpoint, such as "rc_mlx5/mlx5_0:1": each "lane[0]:  5:NAME.0 md[4] ..." names
// one.
std::string transports_in(const std::string& account) {
    std::string found;
    for (size_t at = account.find("lane["); at != std::string::npos; at = account.find("lane[", at + 1)) {
        const size_t end = account.find(" md[", at);
        const size_t name = account.find(':', account.find("]:", at) + 2);
        if (end == std::string::npos || name == std::string::npos || name > end) continue;
        std::string one = account.substr(name + 1, end - name - 1);
        if (const size_t path = one.rfind('.'); path != std::string::npos) one.resize(path);
        if (found.find(one) == std::string::npos) found += (found.empty() ? "" : ", ") + one;
    }
    return found;
}

class Endpoint final : public Ucx {
public:
    bool begin(const std::string& library, const std::string& devices, bool direct, std::string* why);

    std::string address() const override { return address_; }
    int join(const std::string& address, uint64_t tag, int wire, std::string* said) override;
    int send(const void* bytes, size_t length) override;
    int receive(void* bytes, size_t length) override;
    size_t under_way() const override { return messages_.size(); }
    void move_on() override {
        while (ucp_.ucp_worker_progress(worker_) != 0) {}
    }
    int wait(const Over& over) override;
    int flush(const Over& over) override;
    void give_up() override;

private:
    struct Message {
        void* request;
        size_t length;
        bool comes;
    };
    // An arena that is registered, as it was then.
    struct Registered {
        ucp_mem_h handle;
        const unsigned char* begin;
        uint64_t length;
        uint64_t arena;
        uint64_t cuts;
    };

    bool failed(const char* what, ucs_status_t status, std::string* why) const;
    ucp_mem_h registered(const void* bytes, size_t length);
    ucp_request_param_t for_bytes(const void* bytes, size_t length);
    int begun(ucs_status_ptr_t request, size_t length, bool comes);
    bool is_over(const Message& message, int* error) const;
    int sleep(const Over& over);
    int wait_for(void* request, const Over& over);

    Functions ucp_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_ep_h endpoint_ = nullptr;
    std::string address_;
    bool direct_ = false;
    int events_ = -1, wire_ = -1;
    uint64_t tag_ = 0;
    bool broken_ = false;
    std::deque<Message> messages_;
    std::map<int, Registered> registered_;  // by slot
};

bool Endpoint::failed(const char* what, ucs_status_t status, std::string* why) const {
    if (status == UCS_OK) return false;
    *why = std::string("UCX ") + ucp_.ucp_get_version_string() + " cannot " + what + " (its status is " +
           std::to_string(status) + "; the relay's log has its words)";
    return true;
}

bool Endpoint::begin(const std::string& library, const std::string& devices, bool direct, std::string* why) {
    const SignalsElsewhere guard;
    if (!ucp_.load(library, why)) return false;
    ucp_config_t* config = nullptr;
    if (failed("read its configuration", ucp_.ucp_config_read(nullptr, nullptr, &config), why)) return false;
    // It would keep registrations of memory that an arena has given back, which its hooks cannot see: other processes
    // do that. Registrations are kept here.
    ucs_status_t status = ucp_.ucp_config_modify(config, "RCACHE_ENABLE", "n");
    if (status == UCS_OK && !devices.empty() && getenv("UCX_NET_DEVICES") == nullptr)
        status = ucp_.ucp_config_modify(config, "NET_DEVICES", devices.c_str());
    if (status == UCS_OK && direct && getenv("UCX_TLS") == nullptr)
        status = ucp_.ucp_config_modify(config, "TLS", "ib");
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    params.estimated_num_eps = 1;
    if (status == UCS_OK) status = ucp_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
    ucp_.ucp_config_release(config);
    if (failed("find a network", status, why)) return false;
    ucp_worker_params_t worker = {};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    if (failed("make a worker", ucp_.ucp_worker_create(context_, &worker, &worker_), why)) return false;
    if (failed("wake a process", ucp_.ucp_worker_get_efd(worker_, &events_), why)) return false;
    ucp_worker_attr_t own = {};
    own.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    own.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    if (failed("say its address", ucp_.ucp_worker_query(worker_, &own), why)) return false;
    address_.assign(reinterpret_cast<const char*>(own.address), own.address_length);
    direct_ = direct;
    *why = std::string("UCX ") + ucp_.ucp_get_version_string();
    return true;  // (the address itself is freed with the process)
}

int Endpoint::join(const std::string& address, uint64_t tag, int wire, std::string* said) {
    const SignalsElsewhere guard;
    wire_ = wire;
    tag_ = tag;
    ucp_ep_params_t params = {};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t) { static_cast<Endpoint*>(self)->broken_ = true; };
    params.err_handler.arg = this;
    if (failed("reach the other half", ucp_.ucp_ep_create(worker_, &params, &endpoint_), said)) {
        endpoint_ = nullptr;
        return EHOSTUNREACH;
    }
    char* text = nullptr;
    size_t length = 0;
    if (FILE* const account = open_memstream(&text, &length)) {
        ucp_.ucp_ep_print_info(endpoint_, account);
        fclose(account);
    }
    const std::string by = transports_in(text ? text : "");
    free(text);
    if (direct_ && (by.empty() || (", " + by).find(", tcp/") != std::string::npos)) {
        *said = "UCX " + std::string(ucp_.ucp_get_version_string()) + " would go by TCP, too";
        return EHOSTUNREACH;
    }
    *said = "UCX " + std::string(ucp_.ucp_get_version_string()) + " (" + (by.empty() ? "unknown" : by) + ")";
    return 0;
}

// The registration of the arena in which the bytes are; nullptr: they are in none, or it cannot be registered. Then UCX
// does what it has to do with each message.
ucp_mem_h Endpoint::registered(const void* bytes, size_t length) {
    const Process& p = process();
    Mapping mapping;
    const int slot = p.arenas->find(bytes, &mapping);
    if (slot < 0) return nullptr;
    const SlotRecord& record = p.board.slot(slot);
    const uint64_t arena = record.arena.load(std::memory_order_acquire);
    const uint64_t cuts = record.cuts.load(std::memory_order_acquire);
    const uint64_t needed = static_cast<uint64_t>(static_cast<const unsigned char*>(bytes) - mapping.bytes) + length;
    const auto known = registered_.find(slot);
    if (known != registered_.end()) {
        const Registered& one = known->second;
        if (one.begin == mapping.bytes && one.length >= needed && one.arena == arena && one.cuts == cuts)
            return one.handle;
        if (!messages_.empty()) return nullptr;  // the old one may be in use
        if (one.handle != nullptr) ucp_.ucp_mem_unmap(context_, one.handle);
        registered_.erase(known);
    }
    const uint64_t size = record.reserved.load(std::memory_order_acquire);
    if (size < needed || open_to(mapping, size) != 0) return nullptr;
    ucp_mem_map_params_t params = {};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = mapping.bytes;
    params.length = size;
    ucp_mem_h handle = nullptr;
    if (ucp_.ucp_mem_map(context_, &params, &handle) != UCS_OK) handle = nullptr;
    registered_[slot] = {handle, mapping.bytes, size, arena, cuts};
    return handle;
}

ucp_request_param_t Endpoint::for_bytes(const void* bytes, size_t length) {
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    param.memh = registered(bytes, length);
    if (param.memh != nullptr) param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    return param;
}

int Endpoint::begun(ucs_status_ptr_t request, size_t length, bool comes) {
    if (UCS_PTR_IS_ERR(request)) return errno_of(UCS_PTR_STATUS(request));
    messages_.push_back({request, length, comes});
    return 0;
}

int Endpoint::send(const void* bytes, size_t length) {
    if (broken_) return ECONNRESET;
    const ucp_request_param_t param = for_bytes(bytes, length);
    return begun(ucp_.ucp_tag_send_nbx(endpoint_, bytes, length, tag_++, &param), length, false);
}

int Endpoint::receive(void* bytes, size_t length) {
    if (broken_) return ECONNRESET;
    const ucp_request_param_t param = for_bytes(bytes, length);
    return begun(ucp_.ucp_tag_recv_nbx(worker_, bytes, length, tag_++, UINT64_MAX, &param), length, true);
}

bool Endpoint::is_over(const Message& message, int* error) const {
    if (message.request == nullptr) return true;
    ucp_tag_recv_info_t info = {};
    const ucs_status_t status = message.comes ? ucp_.ucp_tag_recv_request_test(message.request, &info)
                                              : ucp_.ucp_request_check_status(message.request);
    if (status == UCS_INPROGRESS) return false;
    *error = errno_of(status);
    if (*error == 0 && message.comes && info.length != message.length) *error = EPROTO;
    return true;
}

// Sleeps until something may have moved.
int Endpoint::sleep(const Over& over) {
    const ucs_status_t armed = ucp_.ucp_worker_arm(worker_);
    if (armed == UCS_ERR_BUSY) return 0;  // something has come meanwhile
    // What comes by TCP is none of this call's business: only its end is.
    pollfd both[] = {{events_, POLLIN, 0}, {wire_, POLLRDHUP, 0}};
    const int ready = poll(both, 2, armed == UCS_OK ? kLook : 1);
    if (ready > 0 && both[1].revents != 0) return ECONNRESET;
    return over ? over() : 0;
}

int Endpoint::wait(const Over& over) {
    int error = 0;
    for (move_on(); !is_over(messages_.front(), &error); move_on()) {
        // (A receive from a dead peer does not fail by itself: nobody knows that it would have come from there.)
        if (broken_) return ECONNRESET;
        if (const int ended = sleep(over)) return ended;
    }
    if (messages_.front().request) ucp_.ucp_request_free(messages_.front().request);
    messages_.pop_front();
    return error;
}

int Endpoint::wait_for(void* request, const Over& over) {
    if (request == nullptr) return 0;
    if (UCS_PTR_IS_ERR(request)) return errno_of(UCS_PTR_STATUS(request));
    ucs_status_t status = UCS_INPROGRESS;
    int ended = 0;
    for (move_on(); (status = ucp_.ucp_request_check_status(request)) == UCS_INPROGRESS && !ended; move_on())
        ended = sleep(over);
    ucp_.ucp_request_free(request);
    return status == UCS_INPROGRESS ? ended : errno_of(status);
}

int Endpoint::flush(const Over& over) {
    const ucp_request_param_t param = {};
    return wait_for(ucp_.ucp_worker_flush_nbx(worker_, &param), over);
}

void Endpoint::give_up() {
    for (const Message& message : messages_)
        if (message.comes && message.request) ucp_.ucp_request_cancel(worker_, message.request);
    void* closing = nullptr;
    if (endpoint_ != nullptr) {
        ucp_request_param_t param = {};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
        closing = ucp_.ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &param);
    }
    wire_ = -1;  // it may have ended, and is not waited for
    broken_ = true;
    int looks = 0;
    wait_for(closing, [&looks] { return ++looks < kLooksToClose ? 0 : ETIMEDOUT; });
    for (int error = 0; looks < kLooksToClose && !messages_.empty(); ++looks) {
        move_on();
        while (!messages_.empty() && is_over(messages_.front(), &error)) {
            if (messages_.front().request) ucp_.ucp_request_free(messages_.front().request);
            messages_.pop_front();
        }
        if (!messages_.empty()) sleep({});
    }
    messages_.clear();
}

}  // namespace

std::unique_ptr<Ucx> Ucx::open(const std::string& library, const std::string& devices, bool direct, std::string* why) {
    auto made = std::make_unique<Endpoint>();
    if (made->begin(library, devices, direct, why)) return made;
    static_cast<void>(made.release());  // UCX may have begun threads that know it
    return nullptr;
}

}  // namespace wilkins::far

#else

namespace wilkins::far {

std::unique_ptr<Ucx> Ucx::open(const std::string&, const std::string&, bool, std::string* why) {
    *why = "Wilkins was built without UCX's headers";
    return nullptr;
}

}  // namespace wilkins::far

#endif
