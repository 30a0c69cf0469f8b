// Functions of an HDF5 behind ours of the same names.
#pragma once

#include <atomic>

#include "base/resolve.hpp"

namespace wilkins {

// The function behind ours, remembered per place of call: the hot path makes no system call and allocates nothing.
class NextFunction {
public:
    explicit constexpr NextFunction(const char* name) : name_(name) {}

    void* operator()(const void* caller) {
        for (Entry& entry : entries_) {
            const void* known = entry.caller.load(std::memory_order_acquire);
            if (known == caller) {
                if (void* function = entry.function.load(std::memory_order_acquire)) return function;
                break;
            }
            if (!known) break;
        }
        void* function = resolve(name_, caller);
        for (Entry& entry : entries_) {
            const void* none = nullptr;
            if (entry.caller.compare_exchange_strong(none, caller)) {
                entry.function.store(function, std::memory_order_release);
                break;
            }
            if (none == caller) break;
        }
        return function;
    }

private:
    struct Entry {
        std::atomic<const void*> caller{nullptr};
        std::atomic<void*> function{nullptr};
    };
    const char* name_;
    Entry entries_[32];
};

}  // namespace wilkins
