// Hooks of a Python task: functions of its `actions` that are called when its HDF5 opens, writes and closes files, and
// what they may ask of the layer.
#pragma once

#include <atomic>

namespace wilkins {

namespace actions {

enum class Event { before_open, after_open, before_close, after_close, before_write, after_write };
inline constexpr int kEvents = 6;

inline std::atomic<void (*)(const char*)> hooks[kEvents];
inline std::atomic<bool> serves_on_close{true};

// Files that this thread is closing.
struct ClosingFiles {
    int depth = 0;
    bool serve = false;            // a hook has asked for the one that is being closed
    const char* closed = nullptr;  // the one that was closed just now, with which HDF5 has not quite done
};
inline thread_local ClosingFiles closing;

// True if the process has hooks, or has changed what a close means. Costs one load.
inline std::atomic<bool> active{false};

// Calls the hook of an event, if there is one, unless this thread is in one already. `name`: of the file or dataset.
void tell(Event event, const char* name);
inline void notify(Event event, const char* name) {
    if (active.load(std::memory_order_relaxed)) tell(event, name);
}

// While it lives, this thread closes files; a hook that serves all serves the one that is being closed by that close.
class Closing {
public:
    explicit Closing(const char* name);
    ~Closing();
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

private:
    const char* name_;
};

// True if a file that is closed now is kept back until the program's actions serve it.
bool keeps_back();

}  // namespace actions
}  // namespace wilkins
