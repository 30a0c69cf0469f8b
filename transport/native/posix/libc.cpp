// Finds the C library's functions once, before the program starts.
#include "posix/libc.hpp"

namespace wilkins::libc {
namespace {

// Early, so that the constructors of other libraries find everything in place.
__attribute__((constructor(101))) void find_all() {
#define WILKINS_FIND(name, ...) name.get();
    WILKINS_LIBC_FUNCTIONS(WILKINS_FIND)
#undef WILKINS_FIND
}

}  // namespace
}  // namespace wilkins::libc
