// Listings that Python makes to find modules.
#pragma once

namespace wilkins {

// True if the call, made from `caller`, is a listing by which Python's import system looks for modules. It has let go
// of the interpreter's lock.
bool is_import(const void* caller);

// True if the call is the program's own: made by its executable, by Python, or by the C++ library for it. Not by
// another library that looks around for files of its own.
bool is_made_by_program(const void* caller);

}  // namespace wilkins
