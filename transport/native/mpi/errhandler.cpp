// Remembering and calling the error handlers of files.
#include "mpi/errhandler.hpp"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <new>
#include <utility>

namespace wilkins::mpiio {

namespace {

std::mutex mutex;
std::atomic<size_t> references{0};  // to all error handlers

// Of a handle that was freed and is another's, the newer one. Never destroyed: a program may still use files as it
// exits.
Errhandlers& made() {
    alignas(Errhandlers) static unsigned char place[sizeof(Errhandlers)];
    static auto* const map = new (place) Errhandlers;
    return *map;
}

}  // namespace

Errhandlers::node_type room_for(Errhandler* function) {
    Errhandlers one;
    one.emplace(0, Known{function});
    return one.extract(one.begin());
}

void remember_errhandler(Handle errhandler, Errhandlers::node_type room) {
    const std::lock_guard lock(mutex);
    room.key() = errhandler;
    auto inserted = made().insert(std::move(room));
    if (!inserted.inserted) inserted.position->second.function = inserted.node.mapped().function;
}

Errhandler* function_of(Handle errhandler) {
    const std::lock_guard lock(mutex);
    const auto found = made().find(errhandler);
    return found == made().end() ? nullptr : found->second.function;
}

void refer_to(Handle errhandler) {
    const std::lock_guard lock(mutex);
    ++made().try_emplace(errhandler, Known{nullptr}).first->second.references;
    ++references;
}

bool any_references() { return references.load(std::memory_order_relaxed) > 0; }

bool give_back(Handle errhandler) {
    const std::lock_guard lock(mutex);
    const auto found = made().find(errhandler);
    if (found == made().end() || found->second.references == 0) return false;
    --found->second.references;
    --references;
    return true;
}

void release(const Abi& mpi, Handle errhandler) {
    if (!give_back(errhandler)) mpi.Errhandler_free(&errhandler);
}

int call_errhandler(const Abi& mpi, Handle errhandler, Errhandler* function, Handle file, int code) {
    if (errhandler == mpi.errors_return) return code;
    if (function != nullptr) {
        function(&file, &code);
        return code;
    }
    char text[1024] = "";
    int length = 0;
    mpi.Error_string(code, text, &length);
    fprintf(stderr, "wilkins: MPI-IO on a file in memory failed and its error handler is fatal: %s\n", text);
    mpi.Abort(mpi.comm_self, code);
    return code;
}

int fail_without_file(const Abi& mpi, int code) {
    Handle errhandler = 0;
    if (mpi.File_get_errhandler(mpi.file_null, &errhandler) != 0) return code;
    const Handle handler = mpi.clean(errhandler);
    const int left = call_errhandler(mpi, handler, function_of(handler), mpi.file_null, code);
    release(mpi, handler);
    return left;
}

}  // namespace wilkins::mpiio
