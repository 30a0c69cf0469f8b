// Who makes a call: Python's interpreter, or code of the program or of a library.
#pragma once

namespace wilkins {

// True if the caller is Python's interpreter itself, as of os.open.
bool is_interpreter(const void* caller);

}  // namespace wilkins
