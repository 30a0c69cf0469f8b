// The one context of the process: attaching to the run, Python's lock.
#include "board/context.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "board/process.hpp"

namespace wilkins {

namespace {

alignas(Process) unsigned char storage[sizeof(Process)];
std::atomic<bool> attached{false};
std::mutex attach_mutex;
thread_local bool attaching = false;  // or it forks

Process& instance() { return *reinterpret_cast<Process*>(storage); }

// The place of a rank of a task that runs on several hosts among those on this one, which `text` gives: "first:count".
// -1: it is none.
int place_among(const char* text, int rank) {
    char* end = nullptr;
    const long first = strtol(text, &end, 10);
    const long count = *end == ':' ? atol(end + 1) : 0;
    return rank >= first && rank - first < count ? static_cast<int>(rank - first) : -1;
}

// The rank within the task: given, or what the mpiexec of the task says.
int rank_from_environment() {
    if (const char* text = getenv("WILKINS_RANK")) return atoi(text);
    for (const char* name : kRankVariables) {
        const char* const text = getenv(name);
        const char* const here = getenv("WILKINS_RANKS");
        if (text) return here ? place_among(here, atoi(text)) : atoi(text);
    }
    return 0;
}

void attach() {
    Process& p = *new (storage) Process();
    const char* folder = getenv("WILKINS_RUN");
    const char* task = getenv("WILKINS_TASK");
    if (!folder || !task) return;
    int error = p.board.attach(folder);
    const int index = atoi(task);
    const int rank = rank_from_environment();
    if (!error && (index < 0 || index >= p.board.head().tasks || rank < 0 || rank >= p.board.task(index).nprocs))
        error = ERANGE;
    if (!error && !(p.arenas = Arenas::make(p.board))) error = ENOMEM;
    if (error) {
        char line[1024];
        int n = snprintf(line, sizeof(line), "wilkins: cannot join the run in %s as task %s rank %d: %s\n", folder,
                         task, rank, strerror(error));
        if (raw::write(2, line, static_cast<size_t>(n)) < 0) return;
        return;
    }
    p.context = {true, index, rank, p.board.task(index).nprocs};
    p.board.introduce(index, rank);
    p.rank_index = p.board.task(index).first_rank + rank;
    if (const char* const here = getenv("WILKINS_RANKS")) p.first_here = atoi(here);
    p.first_port = p.board.task(index).first_port;
    p.last_port = p.board.task(index).last_port;
    p.start = p.board.task(index).folder;
    if (p.start.none()) p.start = folder_of("");  // the plan did not say
    fault::configure(p.task_name(), p.task_rank());
}

}  // namespace

Process& process() {
    if (attached.load(std::memory_order_acquire)) return instance();
    static Process outside;  // what our own calls see while this thread attaches or forks: not part of a run
    if (attaching) return outside;
    const std::lock_guard<std::mutex> guard(attach_mutex);
    if (attached.load(std::memory_order_relaxed)) return instance();
    attaching = true;
    attach();
    attaching = false;
    attached.store(true, std::memory_order_release);
    return instance();
}

void hold_attaching() {
    attach_mutex.lock();
    attaching = true;
}

void let_attach() {
    attaching = false;
    attach_mutex.unlock();
}

Process* known_process() { return attached.load(std::memory_order_acquire) ? &instance() : nullptr; }

const Context& context() { return process().context; }

void account_copying(uint64_t nanoseconds, uint64_t bytes) {
    Process& p = process();
    if (!p.context.active) return;
    p.me().copying_ns.fetch_add(nanoseconds, std::memory_order_relaxed);
    p.me().moved_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void account_waiting(uint64_t nanoseconds) {
    Process& p = process();
    if (p.context.active) p.me().waiting_ns.fetch_add(nanoseconds, std::memory_order_relaxed);
}

namespace {

// Python's C interface, if this process runs it.
struct Python {
    int (*initialized)() = nullptr;
    int (*holds)() = nullptr;
    void* (*save)() = nullptr;
    void (*restore)(void*) = nullptr;
    int (*check_signals)() = nullptr;
    void* (*modules)() = nullptr;
    void* (*item)(void*, const char*) = nullptr;
    void* (*attribute)(void*, const char*) = nullptr;
    void* (*call)(void*, const char*, const char*, ...) = nullptr;
    int (*is_true)(void*) = nullptr;
    void (*forget)(void*) = nullptr;
    void* (*raised)() = nullptr;
    void (*clear)() = nullptr;

    bool here() const { return initialized && holds && save && restore && check_signals && initialized(); }
};

template <class F>
void look_up(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

const Python& python() {
    static const Python found = [] {
        Python p;
        look_up(p.initialized, "Py_IsInitialized");
        if (!p.initialized) return p;
        look_up(p.holds, "PyGILState_Check");
        look_up(p.save, "PyEval_SaveThread");
        look_up(p.restore, "PyEval_RestoreThread");
        look_up(p.check_signals, "PyErr_CheckSignals");
        look_up(p.modules, "PyImport_GetModuleDict");
        look_up(p.item, "PyDict_GetItemString");
        look_up(p.attribute, "PyObject_GetAttrString");
        look_up(p.call, "PyObject_CallMethod");
        look_up(p.is_true, "PyObject_IsTrue");
        look_up(p.forget, "Py_DecRef");
        look_up(p.raised, "PyErr_Occurred");
        look_up(p.clear, "PyErr_Clear");
        return p;
    }();
    return found;
}

__attribute__((tls_model("initial-exec"))) thread_local bool outside_hdf5 = false;

// h5py's lock, if the process has imported h5py; with Python's own lock held. To be given back.
class H5pyLock {
public:
    H5pyLock() {
        const Python& p = python();
        void* const modules =
            p.modules && p.item && p.attribute && p.call && p.is_true && p.forget && p.raised && p.clear ? p.modules()
                                                                                                         : nullptr;
        void* const module = modules && !p.raised() ? p.item(modules, "h5py._objects") : nullptr;
        lock_ = module ? p.attribute(module, "phil") : nullptr;
        if (module && !lock_) p.clear();
    }
    ~H5pyLock() {
        if (lock_) python().forget(lock_);
    }
    H5pyLock(const H5pyLock&) = delete;
    H5pyLock& operator=(const H5pyLock&) = delete;

    bool held() const { return lock_ && does("_is_owned"); }
    bool give_back() const { return does("release", false); }
    void take() const { does("acquire"); }

private:
    // Whether what the method returns is true; else whether it returns at all.
    bool does(const char* method, bool asks = true) const {
        void* const answer = python().call(lock_, method, nullptr);
        if (!answer) python().clear();
        const bool yes = answer && (!asks || python().is_true(answer) == 1);
        if (answer) python().forget(answer);
        return yes;
    }

    void* lock_;
};

}  // namespace

PythonUnlocked::PythonUnlocked() {
    if (!python().here() || !python().holds()) return;
    if (outside_hdf5)
        for (const H5pyLock lock; lock.held() && lock.give_back();) ++levels_;
    saved_ = python().save();
}

PythonUnlocked::~PythonUnlocked() {
    take_back();
    if (levels_ == 0) return;
    for (const H5pyLock lock; levels_ > 0; --levels_) lock.take();
}

H5pyUnlocked::H5pyUnlocked() : held_(python().here() && python().holds() && H5pyLock().held()) { outside_hdf5 = held_; }

H5pyUnlocked::~H5pyUnlocked() { outside_hdf5 = false; }

void PythonUnlocked::take_back() {
    void* const saved = saved_;
    saved_ = nullptr;
    if (saved) python().restore(saved);
}

bool PythonUnlocked::interrupted() {
    if (!saved_) return false;
    take_back();
    const bool raised = python().check_signals() != 0;
    saved_ = python().save();
    return raised;
}

}  // namespace wilkins
