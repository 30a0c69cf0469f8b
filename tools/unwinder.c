// The unwinder that tools/wheel links into the layer: LLVM's, which Zig brings, for what the layer throws itself, and
// the program's for all else. An exception of a callback, and a thread that pthread_exit or pthread_cancel ends, come
// through functions of the layer by the program's unwinder, libgcc's, whose contexts LLVM's functions cannot read. (A
// layer that GCC has linked has libgcc's unwinder itself.)
#define _GNU_SOURCE
#include <dlfcn.h>

#define _Unwind_RaiseException llvm_RaiseException
#define _Unwind_Resume llvm_Resume
#define _Unwind_GetLanguageSpecificData llvm_GetLanguageSpecificData
#define _Unwind_GetRegionStart llvm_GetRegionStart
#define _Unwind_GetIP llvm_GetIP
#define _Unwind_SetIP llvm_SetIP
#define _Unwind_GetGR llvm_GetGR
#define _Unwind_SetGR llvm_SetGR
#include "UnwindLevel1.c"
#undef _Unwind_RaiseException
#undef _Unwind_Resume
#undef _Unwind_GetLanguageSpecificData
#undef _Unwind_GetRegionStart
#undef _Unwind_GetIP
#undef _Unwind_SetIP
#undef _Unwind_GetGR
#undef _Unwind_SetGR

typedef struct _Unwind_Context Context;

// Where this library begins and ends.
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));

static bool is_here(uintptr_t address) { return address >= (uintptr_t)&__ehdr_start && address < (uintptr_t)&_end; }

// A function of the C++ runtime that has thrown frees the exception, and its runtime is part of this library.
static bool thrown_here(const _Unwind_Exception* exception) { return is_here((uintptr_t)exception->exception_cleanup); }

// A context of LLVM's begins with the address of its virtual functions, one of libgcc's with that of a saved register.
static bool made_here(const Context* context) { return is_here(*(const uintptr_t*)context); }

// The program's unwinder is at work, so it is there, unless the program has it inside.
static void* of_libgcc(const char* function) {
    void* library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) library = dlopen("libgcc_s.so.1", RTLD_LAZY);
    void* found = library ? dlsym(library, function) : NULL;
    if (!found) {
        fprintf(stderr,
                "wilkins: an exception of the program cannot pass the layer: libgcc_s.so.1 has no %s; install libgcc\n",
                function);
        abort();
    }
    return found;
}

// Returns what the function of this name of libgcc does.
#define LIBGCC(name, ...)                                                          \
    static __typeof__(&llvm_##name) known;                                         \
    __typeof__(&llvm_##name) function = __atomic_load_n(&known, __ATOMIC_RELAXED); \
    if (!function) {                                                               \
        function = (__typeof__(function))of_libgcc("_Unwind_" #name);              \
        __atomic_store_n(&known, function, __ATOMIC_RELAXED);                      \
    }                                                                              \
    return function(__VA_ARGS__)

_Unwind_Reason_Code _Unwind_RaiseException(_Unwind_Exception* exception) {
    if (thrown_here(exception)) return llvm_RaiseException(exception);
    LIBGCC(RaiseException, exception);
}

void _Unwind_Resume(_Unwind_Exception* exception) {
    if (thrown_here(exception)) llvm_Resume(exception);
    LIBGCC(Resume, exception);
}

uintptr_t _Unwind_GetLanguageSpecificData(Context* context) {
    if (made_here(context)) return llvm_GetLanguageSpecificData(context);
    LIBGCC(GetLanguageSpecificData, context);
}

uintptr_t _Unwind_GetRegionStart(Context* context) {
    if (made_here(context)) return llvm_GetRegionStart(context);
    LIBGCC(GetRegionStart, context);
}

uintptr_t _Unwind_GetIP(Context* context) {
    if (made_here(context)) return llvm_GetIP(context);
    LIBGCC(GetIP, context);
}

void _Unwind_SetIP(Context* context, uintptr_t value) {
    if (made_here(context)) {
        llvm_SetIP(context, value);
        return;
    }
    LIBGCC(SetIP, context, value);
}

uintptr_t _Unwind_GetGR(Context* context, int index) {
    if (made_here(context)) return llvm_GetGR(context, index);
    LIBGCC(GetGR, context, index);
}

void _Unwind_SetGR(Context* context, int index, uintptr_t value) {
    if (made_here(context)) {
        llvm_SetGR(context, index, value);
        return;
    }
    LIBGCC(SetGR, context, index, value);
}
