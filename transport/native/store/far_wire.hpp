// What a rank and the server of files on another host say to each other.
#pragma once

#include <cstdint>

#include "board/layout.hpp"
#include "store/store.hpp"

namespace wilkins::far {

enum What : uint32_t {
    write,   // `length` bytes follow, for `place`
    settle,  // asks whether all writes so far have been done
    read,    // asks for `length` bytes from `place` on
    eof,     // asks for the file's size
    lock,    // takes the file (`kind`: F_RDLCK, F_WRLCK) or gives it back (F_UNLCK)
    close,   // lets go of the step
};

struct Request {
    uint32_t what;
    int32_t kind;
    uint64_t place;
    uint64_t length;
};

// To all but writes; the bytes that were read follow.
struct Answer {
    int64_t error;
    uint64_t value;
};

// The first words of a connection, after the key. An answer follows.
struct Hello {
    StepToken token;
    int32_t writable;
    char name[kNameMax];
};

}  // namespace wilkins::far
