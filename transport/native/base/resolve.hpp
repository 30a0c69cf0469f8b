// Finds the function that a call would have reached without the layer.
#pragma once

namespace wilkins {

// The address of `name` as seen from the library that contains `caller` (a return address): its own dependencies first,
// then the global order behind this library. Never returns a function of this library. nullptr if there is none.
void* resolve(const char* name, const void* caller);

// The C library's own function behind ours.
void* resolve_libc(const char* name);

// True if `address` lies in this library. Two comparisons: dladdr would search the symbols of the library where it lies.
bool is_ours(const void* address);

}  // namespace wilkins

// The return address of the interposed function; only meaningful directly inside it.
#define WILKINS_CALLER __builtin_return_address(0)
