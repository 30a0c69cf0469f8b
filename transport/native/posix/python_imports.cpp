// Looks at the frames of the interpreter, through what the process has of its C interface.
#include "posix/python_imports.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "base/loaded.hpp"
#include "posix/caller.hpp"

namespace wilkins {

namespace {

constexpr int kFrames = 8;

// Python's own modules that list folders for whoever calls them.
constexpr const char* kPassing[] = {"/os.py",      "<frozen os>",          "/glob.py",          "/fnmatch.py",
                                    "/pathlib.py", "/pathlib/__init__.py", "/pathlib/_local.py"};

struct Interpreter {
    int (*initialized)() = nullptr;
    void* (*this_thread)() = nullptr;
    int (*ensure)() = nullptr;
    void (*release)(int) = nullptr;
    void* (*frame)() = nullptr;
    void* (*back)(void*) = nullptr;
    void* (*code)(void*) = nullptr;
    void* (*attribute)(void*, const char*) = nullptr;
    const char* (*text)(void*) = nullptr;
    void (*keep)(void*) = nullptr;
    void (*drop)(void*) = nullptr;
    void (*clear)() = nullptr;

    bool complete() const {
        return initialized && this_thread && ensure && release && frame && back && code && attribute && text && keep &&
               drop && clear;
    }
};

template <class F>
void look_up(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

const Interpreter& interpreter() {
    static const Interpreter found = [] {
        Interpreter p;
        look_up(p.initialized, "Py_IsInitialized");
        look_up(p.this_thread, "PyGILState_GetThisThreadState");
        look_up(p.ensure, "PyGILState_Ensure");
        look_up(p.release, "PyGILState_Release");
        look_up(p.frame, "PyEval_GetFrame");
        look_up(p.back, "PyFrame_GetBack");
        look_up(p.code, "PyFrame_GetCode");
        look_up(p.attribute, "PyObject_GetAttrString");
        look_up(p.text, "PyUnicode_AsUTF8");
        look_up(p.keep, "Py_IncRef");
        look_up(p.drop, "Py_DecRef");
        look_up(p.clear, "PyErr_Clear");
        return p;
    }();
    return found;
}

bool ends_in(const char* text, const char* end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool passes_on(const char* file) {
    for (const char* passing : kPassing)
        if (ends_in(file, passing)) return true;
    return false;
}

bool finds_modules(const char* file) {
    return strncmp(file, "<frozen importlib", 17) == 0 || strncmp(file, "<frozen zipimport", 17) == 0 ||
           strstr(file, "/importlib/") || strstr(file, "/importlib_metadata/") || strstr(file, "/pkg_resources/") ||
           ends_in(file, "/pkgutil.py") || ends_in(file, "/site.py");
}

enum class Asker { passes_on, finds_modules, other };

Asker ask(const Interpreter& python, void* frame) {
    void* const code = python.code(frame);
    void* const file = python.attribute(code, "co_filename");
    const char* const name = file ? python.text(file) : nullptr;
    const Asker asker = !name                 ? Asker::other
                        : finds_modules(name) ? Asker::finds_modules
                        : passes_on(name)     ? Asker::passes_on
                                              : Asker::other;
    if (!name) python.clear();
    if (file) python.drop(file);
    python.drop(code);
    return asker;
}

}  // namespace

bool is_made_by_program(const void* caller) {
    const char* const name = loaded_at(caller).name;
    return name && (!name[0] || strstr(name, "/libstdc++.so") || is_interpreter(caller));
}

bool is_import(const void* caller) {
    const Interpreter& python = interpreter();
    if (!python.complete() || !is_interpreter(caller)) return false;
    // Before it is initialised, Python imports its first modules, from folders of PYTHONPATH, in the thread that begins
    // it. (As it ends, its lock is no other thread's to take.)
    if (!python.this_thread() || (!python.initialized() && syscall(SYS_gettid) != getpid())) return false;
    const int state = python.ensure();
    Asker asker = Asker::passes_on;
    void* frame = python.frame();
    if (frame) python.keep(frame);
    for (int k = 0; frame && k < kFrames && asker == Asker::passes_on; ++k) {
        asker = ask(python, frame);
        void* const outer = python.back(frame);
        python.drop(frame);
        frame = outer;
    }
    if (frame) python.drop(frame);
    python.release(state);
    return asker == Asker::finds_modules;
}

}  // namespace wilkins
