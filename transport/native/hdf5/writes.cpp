// HDF5's calls that flush files and write to datasets, after which a port's rule may publish what the file holds.
// Buffers in a GPU's memory are staged.
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/patterns.hpp"
#include "board/context.hpp"
#include "board/process.hpp"
#include "events.hpp"
#include "hdf5/device.hpp"
#include "hdf5/hdf5.hpp"
#include "hdf5/next_function.hpp"
#include "steps/actions.hpp"
#include "steps/open_files.hpp"
#include "steps/snapshot.hpp"
#include "steps/step_file.hpp"

namespace {

using namespace wilkins;

constexpr int kLocal = 0;  // H5F_SCOPE_LOCAL: without files mounted in this one
constexpr size_t kLongestPath = 4096;

// On the board while it lives: where ranks share the file, the flush waits for all of them, and nothing else tells for
// whom.
class FlushUnderWay {
public:
    FlushUnderWay(const Process& p, int port) : rank_(p.me()) {
        rank_.flush_port = port;
        rank_.flush_pid = getpid();
        rank_.flush_since = now_ns();
    }
    ~FlushUnderWay() { rank_.flush_since = 0; }
    FlushUnderWay(const FlushUnderWay&) = delete;
    FlushUnderWay& operator=(const FlushUnderWay&) = delete;

private:
    RankRecord& rank_;
};

bool is_counted(const char* rule, const char* path) {
    if (!rule[0]) return true;
    while (*rule == '/') ++rule;
    while (*path == '/') ++path;
    return glob_match(rule, path);
}

// After a write to a dataset: flushes its file if this was one of the writes that its port counts, and due.
void after_write(hid_t dataset, const void* caller) {
    static NextFunction file_name("H5Fget_name"), object_name("H5Iget_name"), flush("H5Fflush");
    auto get_file_name = reinterpret_cast<ssize_t (*)(hid_t, char*, size_t)>(file_name(caller));
    auto get_object_name = reinterpret_cast<ssize_t (*)(hid_t, char*, size_t)>(object_name(caller));
    auto flush_file = reinterpret_cast<herr_t (*)(hid_t, int)>(flush(caller));
    char name[kNameMax], path[kLongestPath];
    Match match;
    if (!get_file_name || !get_object_name || !flush_file || get_file_name(dataset, name, sizeof(name)) <= 0) return;
    if (!match_name(name, &match) || match.outport < 0) return;
    const Process& p = process();
    const AccessKeys& keys = p.board.port(match.outport).keys;
    if (keys.publish != Publish::write) return;
    if (keys.publish_dset[0] && get_object_name(dataset, path, sizeof(path)) <= 0) return;
    if (!is_counted(keys.publish_dset, path) || !count_write(match.name, keys.publish_count)) return;
    FlushCall by_layer(Flushing::by_layer);
    FlushUnderWay under_way(p, match.outport);
    if (flush_file(dataset, kLocal) < 0) log_event(event::not_flushed(match.name));
}

// A hook gets the dataset's path, if it lies in a port's file.
void tell_write(actions::Event event, hid_t dataset, const void* caller) {
    static NextFunction file_name("H5Fget_name"), object_name("H5Iget_name");
    auto get_file_name = reinterpret_cast<ssize_t (*)(hid_t, char*, size_t)>(file_name(caller));
    auto get_object_name = reinterpret_cast<ssize_t (*)(hid_t, char*, size_t)>(object_name(caller));
    char name[kNameMax], path[kLongestPath] = "";
    Match match;
    if (!get_file_name || !get_object_name || get_file_name(dataset, name, sizeof(name)) <= 0) return;
    if (!match_name(name, &match) || match.outport < 0) return;
    get_object_name(dataset, path, sizeof(path));
    actions::tell(event, path);
}

// Runs a write to `count` datasets.
template <class F>
herr_t write(size_t count, const hid_t* datasets, const void* caller, F call) {
    const bool notifies = actions::active.load(std::memory_order_relaxed);
    for (size_t k = 0; notifies && k < count; ++k) tell_write(actions::Event::before_write, datasets[k], caller);
    const herr_t result = call();
    for (size_t k = 0; notifies && result >= 0 && k < count; ++k)
        tell_write(actions::Event::after_write, datasets[k], caller);
    if (result >= 0 && counts_writes())
        for (size_t k = 0; k < count; ++k) after_write(datasets[k], caller);
    return result;
}

bool any_staged(size_t count, const hid_t* datasets, const void* const* buffers, const void* caller) {
    for (size_t k = 0; k < count; ++k)
        if (is_staged(datasets[k], buffers[k], caller)) return true;
    return false;
}

// A write to several datasets of which some are written from device memory: one after the other.
herr_t write_each(size_t count, const hid_t* datasets, const hid_t* memory_types, const hid_t* memory_spaces,
                  const hid_t* file_spaces, hid_t list, const void* const* buffers, WriteCall call,
                  const void* caller) {
    for (size_t k = 0; k < count; ++k) {
        const Transfer transfer{datasets[k], memory_types[k], memory_spaces[k], file_spaces[k], list};
        const herr_t result =
            is_staged(datasets[k], buffers[k], caller)
                ? write_staged(transfer, buffers[k], call, caller)
                : call(datasets[k], memory_types[k], memory_spaces[k], file_spaces[k], list, buffers[k]);
        if (result < 0) return result;
    }
    return 0;
}

}  // namespace

WILKINS_API(herr_t, H5Fflush(hid_t object, int scope)) {
    static NextFunction behind("H5Fflush");
    auto real = reinterpret_cast<herr_t (*)(hid_t, int)>(behind(WILKINS_CALLER));
    FlushCall under_way(FlushCall::what() == Flushing::by_layer ? Flushing::by_layer : Flushing::by_program);
    return real(object, scope);
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t, H5Fflush_async(const char* file, const char* function, unsigned line, hid_t object, int scope,
                                   hid_t events)) {
    static NextFunction behind("H5Fflush_async");
    auto real =
        reinterpret_cast<herr_t (*)(const char*, const char*, unsigned, hid_t, int, hid_t)>(behind(WILKINS_CALLER));
    FlushCall under_way(Flushing::by_program);
    return real(file, function, line, object, scope, events);
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t, H5Dwrite(hid_t dataset, hid_t memory_type, hid_t memory_space, hid_t file_space, hid_t list,
                             const void* buffer)) {
    static NextFunction behind("H5Dwrite");
    auto real = reinterpret_cast<herr_t (*)(hid_t, hid_t, hid_t, hid_t, hid_t, const void*)>(behind(WILKINS_CALLER));
    const void* caller = WILKINS_CALLER;
    return write(1, &dataset, caller, [=] {
        if (is_staged(dataset, buffer, caller))
            return write_staged({dataset, memory_type, memory_space, file_space, list}, buffer, real, caller);
        return real(dataset, memory_type, memory_space, file_space, list, buffer);
    });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t,
            H5Dwrite_async(const char* file, const char* function, unsigned line, hid_t dataset, hid_t memory_type,
                           hid_t memory_space, hid_t file_space, hid_t list, const void* buffer, hid_t events)) {
    static NextFunction behind("H5Dwrite_async");
    auto real = reinterpret_cast<herr_t (*)(const char*, const char*, unsigned, hid_t, hid_t, hid_t, hid_t, hid_t,
                                            const void*, hid_t)>(behind(WILKINS_CALLER));
    static NextFunction plain("H5Dwrite");
    const void* caller = WILKINS_CALLER;
    return write(1, &dataset, caller, [=] {
        // Staged memory is gone when this returns: the write must be over.
        if (is_staged(dataset, buffer, caller))
            return write_staged({dataset, memory_type, memory_space, file_space, list}, buffer,
                                reinterpret_cast<WriteCall>(plain(caller)), caller);
        return real(file, function, line, dataset, memory_type, memory_space, file_space, list, buffer, events);
    });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t, H5Dwrite_multi(size_t count, hid_t* datasets, hid_t* memory_types, hid_t* memory_spaces,
                                   hid_t* file_spaces, hid_t list, const void** buffers)) {
    static NextFunction behind("H5Dwrite_multi");
    auto real = reinterpret_cast<herr_t (*)(size_t, hid_t*, hid_t*, hid_t*, hid_t*, hid_t, const void**)>(
        behind(WILKINS_CALLER));
    static NextFunction plain("H5Dwrite");
    const void* caller = WILKINS_CALLER;
    return write(count, datasets, caller, [=] {
        if (!any_staged(count, datasets, buffers, caller))
            return real(count, datasets, memory_types, memory_spaces, file_spaces, list, buffers);
        return write_each(count, datasets, memory_types, memory_spaces, file_spaces, list, buffers,
                          reinterpret_cast<WriteCall>(plain(caller)), caller);
    });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t, H5Dwrite_multi_async(const char* file, const char* function, unsigned line, size_t count,
                                         hid_t* datasets, hid_t* memory_types, hid_t* memory_spaces, hid_t* file_spaces,
                                         hid_t list, const void** buffers, hid_t events)) {
    static NextFunction behind("H5Dwrite_multi_async");
    auto real = reinterpret_cast<herr_t (*)(const char*, const char*, unsigned, size_t, hid_t*, hid_t*, hid_t*, hid_t*,
                                            hid_t, const void**, hid_t)>(behind(WILKINS_CALLER));
    static NextFunction plain("H5Dwrite");
    const void* caller = WILKINS_CALLER;
    return write(count, datasets, caller, [=] {
        if (!any_staged(count, datasets, buffers, caller))
            return real(file, function, line, count, datasets, memory_types, memory_spaces, file_spaces, list, buffers,
                        events);
        return write_each(count, datasets, memory_types, memory_spaces, file_spaces, list, buffers,
                          reinterpret_cast<WriteCall>(plain(caller)), caller);
    });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t, H5Dwrite_chunk(hid_t dataset, hid_t list, uint32_t filters, const uint64_t* offset, size_t size,
                                   const void* buffer)) {
    static NextFunction behind("H5Dwrite_chunk");
    auto real = reinterpret_cast<herr_t (*)(hid_t, hid_t, uint32_t, const uint64_t*, size_t, const void*)>(
        behind(WILKINS_CALLER));
    return write(1, &dataset, WILKINS_CALLER, [=] { return real(dataset, list, filters, offset, size, buffer); });
}
WILKINS_OR_HDF5_ERROR
