// Which looks at a name are the first half of an open.
//
// A look (stat, access) does not wait, for many programs ask whether a step is there in order to go on without it. But some
// libraries look only to refuse a missing file themselves, and open it right after; what they would do if the step were there, the
// open, waits. So does their look.
#pragma once

namespace wilkins {

// Is the call, made from `caller`, a look of such a library? True only in Python, where the code that asks is known.
bool opens_after_look(const void* caller);

// Is the caller Python's interpreter itself, as of os.stat and os.open? It has let go of its lock, so that this thread may take it.
bool is_interpreter(const void* caller);

}  // namespace wilkins
