// The steps that a relay has sent in part, and that stay here for readers of the other host.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "far/connection.hpp"
#include "steps/step_file.hpp"

namespace wilkins {

// The relay's other half says which it lets go of, by one connection for all of them (steps/kept_elsewhere.hpp).
class KeptHere {
public:
    // The process's one: a relay's sender is a process of its own.
    static KeptHere& all();

    // Keeps the step until the other half lets go of it. Call before it is sent. Returns 0 or an errno; ECONNRESET: the
    // other half has left.
    int add(const StepFile& step);

    // Hears which steps it lets go of, and tells it while memory is short. Returns when it has left: then all go.
    void serve(far::Connection& other_half);

private:
    bool is_memory_short();
    void let_go(const StepToken& token);
    void end(int error);

    std::mutex mutex_;
    std::vector<StepFile*> kept_;
    bool is_over_ = false;
    const std::atomic<uint32_t>* pressed_ = nullptr;  // of the port from which the steps have come here
    uint32_t heard_ = 0;                              // of what it says
};

}  // namespace wilkins
