// Tells the interpreter by the object that a return address lies in.
#include "posix/caller.hpp"

#include <dlfcn.h>

namespace wilkins {

bool is_interpreter(const void* caller) {
    static void* const python = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    Dl_info asks, found;
    return python && dladdr(caller, &asks) && dladdr(python, &found) && asks.dli_fbase == found.dli_fbase;
}

}  // namespace wilkins
