// Tells the interpreter by the object that a return address lies in.
#include "posix/caller.hpp"

#include <dlfcn.h>

#include "base/loaded.hpp"

namespace wilkins {

bool is_interpreter(const void* caller) {
    static const Loaded python = loaded_at(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
    return python.holds(caller);
}

}  // namespace wilkins
