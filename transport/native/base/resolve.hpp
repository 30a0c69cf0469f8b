// Finds the function that a call would have reached without the layer.
#pragma once

namespace wilkins {

// What is seen from the library that contains `caller` (a return address). To find that takes a search of its symbols:
// many names are looked up in one scope.
class Scope {
public:
    explicit Scope(const void* caller);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // The address of `name`: in the library and its own dependencies first, then in the global order behind this
    // library. Never a function of this library. nullptr if there is none.
    void* find(const char* name) const;

private:
    void* library_ = nullptr;
};

inline void* resolve(const char* name, const void* caller) { return Scope(caller).find(name); }

// The C library's own function behind ours, or what stands in for one that came after glibc 2.28; nullptr if there is
// none.
void* resolve_libc(const char* name);

// True if `address` lies in this library. Two comparisons: dladdr would search the symbols of the library where it
// lies.
bool is_ours(const void* address);

}  // namespace wilkins

// The return address of the interposed function; only meaningful directly inside it.
#define WILKINS_CALLER __builtin_return_address(0)
