// The border to C, over which no C++ exception of the layer's goes: there is a foreign program on the other side.
//
// A function that foreign code calls ends in one of the macros WILKINS_OR...: what it answers where it cannot go on.
// The macros that define such functions (WILKINS_API, WILKINS_INTERPOSE) open a function-try-block, so that none
// compiles without. It costs nothing until something is thrown, and the function's own frame is the one that the
// program called.
#pragma once

#include <exception>

namespace wilkins {

// For a handler of what was thrown in `function`: an errno that says what it was, which is set, too, and a line in the
// log. What a callback of the program's has thrown goes on to the program. Not to be called from elsewhere.
int thrown(const char* function, const std::exception& what);

// What `call` answers; if it throws, what `failed` makes of the errno.
template <class Call, class Failed>
auto guarded(const char* function, Call call, Failed failed) -> decltype(call()) {
    try {
        return call();
    } catch (const std::exception& what) {
        return failed(thrown(function, what));
    }
}

}  // namespace wilkins

// Defines a C function that can be seen from outside, by its result and by its name with its parameters.
#define WILKINS_API(result, ...) extern "C" __attribute__((visibility("default"))) result __VA_ARGS__ try

// After a function's body: what it answers if something was thrown in it. `errno` says what.
#define WILKINS_OR(...)                  \
    catch (const std::exception& what) { \
        wilkins::thrown(__func__, what); \
        return __VA_ARGS__;              \
    }
