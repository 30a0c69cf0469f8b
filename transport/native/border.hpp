// The border to C, over which no C++ exception may go.
#pragma once

#include <cxxabi.h>

#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

#include "context.hpp"

namespace wilkins {

// What `call` answers; if it throws, what `failed` makes of an errno, which is set, and a line in the log says so.
template <class Call, class Failed>
auto guarded(const char* who, Call call, Failed failed) -> decltype(call()) {
    int error = EIO;
    try {
        return call();
    } catch (abi::__forced_unwind&) {
        throw;  // a thread is being cancelled, as its program wants
    } catch (const std::bad_alloc&) {
        error = ENOMEM;
    } catch (const std::system_error& thrown) {
        if (thrown.code().value() > 0) error = thrown.code().value();
    } catch (const std::exception&) {
    }
    log_line("error: %s cannot go on: %s", who, error == ENOMEM ? "there is no memory for it" : "an error that it does not know");
    errno = error;
    return failed(error);
}

}  // namespace wilkins
