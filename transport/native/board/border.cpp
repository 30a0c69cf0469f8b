// What was thrown, and by whom.
#include "board/border.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <typeinfo>

#include "board/context.hpp"
#include "events.hpp"

namespace wilkins {

namespace {

constexpr char kInterposed[] = "wilkins_libc_";  // what the C library's names begin with here (posix/libc.hpp)

const void* library_of(const void* address) {
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fbase : nullptr;
}

// The C++ runtime is part of this library, so what is thrown here has a type in it, and nothing else has.
bool is_the_layers(const std::type_info* type) { return library_of(type) == library_of(&typeid(std::bad_alloc)); }

int error_of(const std::exception& what) {
    if (dynamic_cast<const std::bad_alloc*>(&what)) return ENOMEM;
    const auto* system = dynamic_cast<const std::system_error*>(&what);
    return system && system->code().value() > 0 ? system->code().value() : EIO;
}

// The unwinder that is part of this library sets itself up at its first use. Another one, that of the program's C++ or
// of the C library as it ends a thread, comes through functions here with only parts of it, which abort before that.
__attribute__((constructor(101))) void set_up_unwinder() {
    _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr);
}

}  // namespace

int thrown(const char* function, const std::exception& what) {
    if (!is_the_layers(abi::__cxa_current_exception_type())) throw;
    const int error = error_of(what);
    if (strncmp(function, kInterposed, strlen(kInterposed)) == 0) function += strlen(kInterposed);
    if (error == ENOMEM) log_event(event::no_memory(function));
    else log_event(event::own_error(function, what.what()));
    errno = error;
    return error;
}

}  // namespace wilkins
