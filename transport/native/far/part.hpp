// What ranks on this host have written of a step whose arena is on another one: it stays here, in a file of this host's
// shared memory.
//
// The host of the arena knows which bytes of the step are in such a part (steps/homes.hpp); a part itself knows
// nothing. It belongs to a slot there, and is used again with that: when the slot holds another step, nobody reads the
// last one any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "board/arena.hpp"

namespace wilkins {

class Part {
public:
    // That of a slot on the host whose server of files is at `lead` (address:port). `make`: it may be new; else it has
    // to be there. The process keeps it. nullptr, with an errno, if that cannot be.
    static Part* open(const char* lead, int slot, bool make, int* error);

    // It holds bytes of this step from now on, which the server at `where` gives to others.
    void begin(uint64_t stamp, const char* where);

    // True if it holds bytes of this step, for the server at `where` (nullptr: at any) to give.
    bool holds(uint64_t stamp, const char* where) const;

    // Gets memory for these bytes, which may be written then. Returns 0 or an errno; ENOSPC: it would leave too little
    // to others.
    int hold(uint64_t begin, uint64_t end);

    // Lets bytes be read that somebody has written. Returns 0 or an errno.
    int open_to_read(uint64_t end);

    // Of the step's first one.
    unsigned char* bytes() const;

private:
    struct Head;
    Part(std::string path, const Mapping& mapping) : path_(std::move(path)), mapping_(mapping) {}
    Head& head() const;

    const std::string path_;
    const Mapping mapping_;
    std::vector<bool> held_;  // blocks that this process knows to have memory
};

}  // namespace wilkins
