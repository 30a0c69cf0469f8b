// The lazy steps that a relay has for readers of this host, and that have to stay where they were made.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "far/far_file.hpp"

namespace wilkins {

class KeptElsewhere {
public:
    // `keeps`: the connection that keeps the step there, until it is closed.
    void add(int slot, uint64_t stamp, std::unique_ptr<FarFile> keeps);

    // How many there are. Lets go of those whose slots hold other steps by now.
    size_t count();

    // The stream has ended. Waits until nobody can read any of them, nor a step that its host might have to mend.
    // Returns 0, or EINTR as a wait does.
    int await_end(int port);

private:
    struct Kept {
        int slot;
        uint64_t stamp;
        std::unique_ptr<FarFile> keeps;
    };

    void let_go();
    void watch();
    bool heed(const Kept& one);

    std::mutex mutex_;
    std::vector<Kept> kept_;
    bool watched_ = false;
};

}  // namespace wilkins
