// What a rank and the server of files on another host say to each other.
#pragma once

#include <cstdint>

#include "board/layout.hpp"
#include "board/step_token.hpp"
#include "far/far_file.hpp"

namespace wilkins::far {

enum What : uint32_t {
    write,    // `length` bytes follow, for `place`
    settle,   // asks whether all writes so far have been done
    read,     // asks for `length` bytes from `place` on
    gather,   // asks for the bytes of `length` ranges, which follow
    eof,      // asks for the file's size
    lock,     // takes the file (`kind`: F_RDLCK, F_WRLCK) or gives it back (F_UNLCK)
    cut,      // sets the file's size to `length`
    publish,  // publishes it as it is now
    put,      // says that the rank's host has these bytes now
    host,     // asks where the server of a host is that has some (`kind`: its number)
    owners,   // asks whose the bytes of `length` ranges are, which follow
    close,    // lets go of the step; another Hello may follow
    leave,    // likewise, and nobody waits for an answer
};

// Of steps that are kept (`Use::keep`), the client says the StepToken of each that it lets go of, and the server a byte
// as often as this while a rank of its host waits for memory.
constexpr int kPause = 200;  // ms

// How often bytes of a step that have come damaged are asked for again while nothing of them comes sound.
constexpr int kMostDamaged = 10;

struct Request {
    uint32_t what;
    int32_t kind;
    uint64_t place;
    uint64_t length;
};

// To all but `write`, `put` and `leave`. To `read`: so many runs follow, that say where the bytes are, and then the
// bytes of runs without a host; or, if there are none, all. To `gather`: all bytes; 1 if some of the step had changed
// in memory, and were mended. To `host`: its address. To `owners`: a text of so many bytes.
struct Answer {
    int64_t error;
    uint64_t value;
};

// The first words of a connection, after the key, and again after `close`, `leave` and what opens no step: which step.
// `Opened` follows.
struct Hello {
    StepToken token;  // one that a rank of the host has open; with slot -1, the task's own file of that name; to ask:
                      // slot 1: of folders above, too
    Use use;
    char name[kNameMax];        // of the step, there or missed; to ask: of the folder; to keep: none
    char address[kAddressMax];  // to write: where the server of the rank's host is, which can have bytes of the step;
                                // of a part: where that of the host is on which the step was made
};

struct Opened {
    int64_t error;
    StepToken token;
    uint64_t number;  // of the rank's host; 0: what it writes has to come here. To ask: the answer (Held, or 1)
};

}  // namespace wilkins::far
