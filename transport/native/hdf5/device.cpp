// HDF5's transfers to and from device memory: the bytes that a selection can touch are staged in host memory, and HDF5
// works there. Whole datasets go in pieces of bounded size.
#include "hdf5/device.hpp"

#include <cstdint>
#include <cstring>

#include "base/patterns.hpp"
#include "board/context.hpp"
#include "board/process.hpp"
#include "events.hpp"
#include "hdf5/next_function.hpp"
#include "store/store.hpp"

namespace wilkins {

namespace {

using hsize_t = unsigned long long;
using hssize_t = long long;

constexpr hid_t kAll = 0, kOneBlock = 1;     // H5S_ALL, H5S_BLOCK
constexpr int kMostDimensions = 32;          // H5S_MAX_RANK
constexpr int kSelectedAll = 3;              // H5S_SEL_ALL
constexpr int kCompound = 6, kVariable = 9;  // H5T_COMPOUND, H5T_VLEN
constexpr int kAllocated = 2;                // H5D_SPACE_STATUS_ALLOCATED
constexpr int kCollective = 1;               // H5FD_MPIO_COLLECTIVE
constexpr int kChunked = 2;                  // H5D_CHUNKED
constexpr int kSet = 0;                      // H5S_SELECT_SET

// The HDF5 that a call came to, for this transfer.
class OwnLibrary {
public:
    explicit OwnLibrary(const void* caller) : caller_(caller) {}

    template <class R, class... A>
    R operator()(NextFunction& behind, A... arguments) const {
        auto function = reinterpret_cast<R (*)(A...)>(behind(caller_));
        return function ? function(arguments...) : static_cast<R>(-1);
    }

private:
    const void* caller_;
};

// An id of HDF5's that this closes.
class Space {
public:
    Space(const OwnLibrary& library, hid_t id, bool owned) : library_(library), id_(id), owned_(owned) {}
    ~Space() {
        static NextFunction close("H5Sclose");
        if (owned_ && id_ >= 0) library_.operator()<herr_t>(close, id_);
    }
    hid_t id() const { return id_; }
    Space(const Space&) = delete;
    Space& operator=(const Space&) = delete;

private:
    const OwnLibrary& library_;
    hid_t id_;
    bool owned_;
};

// What part of a buffer a transfer can touch.
struct Extent {
    size_t element = 0;
    uint64_t first = 0;  // elements
    uint64_t count = 0;
    bool dense = false;  // all of them are transferred
    size_t bytes() const { return static_cast<size_t>(count) * element; }
    size_t offset() const { return static_cast<size_t>(first) * element; }
};

bool has_pointers(const OwnLibrary& library, hid_t type) {
    static NextFunction detect("H5Tdetect_class"), variable("H5Tis_variable_str");
    return library.operator()<htri_t>(detect, type, kVariable) > 0 || library.operator()<htri_t>(variable, type) > 0;
}

// Of the memory space; the file's is taken for one that is left out, as in HDF5.
bool find_extent(const OwnLibrary& library, const Transfer& transfer, Extent* out) {
    static NextFunction get_size("H5Tget_size"), get_space("H5Dget_space"), points("H5Sget_select_npoints"),
        bounds("H5Sget_select_bounds"), get_ndims("H5Sget_simple_extent_ndims"), get_dims("H5Sget_simple_extent_dims");
    out->element = library.operator()<size_t>(get_size, transfer.memory_type);
    hid_t given = transfer.memory_space;
    const bool block = given == kOneBlock;
    if (given == kAll || block) given = transfer.file_space;
    const bool of_dataset = given == kAll;
    Space space(library, of_dataset ? library.operator()<hid_t>(get_space, transfer.dataset) : given, of_dataset);
    const hssize_t selected = library.operator()<hssize_t>(points, space.id());
    if (!out->element || selected < 0) return false;
    out->count = static_cast<uint64_t>(selected);
    out->dense = true;
    if (selected == 0 || block) return true;
    hsize_t dims[kMostDimensions], start[kMostDimensions], end[kMostDimensions];
    const int ndims = library.operator()<int>(get_ndims, space.id());
    if (ndims <= 0) return ndims == 0;
    if (library.operator()<int>(get_dims, space.id(), dims, static_cast<hsize_t*>(nullptr)) < 0 ||
        library.operator()<herr_t>(bounds, space.id(), start, end) < 0)
        return false;
    uint64_t first = 0, last = 0;
    for (int k = 0; k < ndims; ++k) {
        first = first * dims[k] + start[k];
        last = last * dims[k] + end[k];
    }
    out->first = first;
    out->count = last - first + 1;
    out->dense = out->count == static_cast<uint64_t>(selected);
    return true;
}

// How a whole dataset is cut into blocks along its first dimension; rows == 0: it is not.
struct Blocks {
    int ndims = 0;
    hsize_t dims[kMostDimensions] = {};
    hsize_t rows = 0;
};

bool selects_all(const OwnLibrary& library, hid_t space) {
    static NextFunction get_type("H5Sget_select_type");
    return space == kAll || library.operator()<int>(get_type, space) == kSelectedAll;
}

// Ranks that transfer together make the same calls: their transfers stay whole.
bool is_collective(const OwnLibrary& library, hid_t list, const void* caller) {
    static NextFunction get_mode("H5Pget_dxpl_mpio");
    int mode = 0;
    return list > 0 && get_mode(caller) && library.operator()<herr_t>(get_mode, list, &mode) >= 0 &&
           mode == kCollective;
}

Blocks cut(const OwnLibrary& library, const Transfer& transfer, const Extent& extent, const void* caller) {
    static NextFunction get_space("H5Dget_space"), get_ndims("H5Sget_simple_extent_ndims"),
        get_dims("H5Sget_simple_extent_dims"), get_properties("H5Dget_create_plist"), get_layout("H5Pget_layout"),
        get_chunk("H5Pget_chunk"), close_list("H5Pclose");
    Blocks blocks;
    if (extent.bytes() <= Staging::kPiece || !extent.dense || !selects_all(library, transfer.memory_space) ||
        !selects_all(library, transfer.file_space) || is_collective(library, transfer.list, caller))
        return blocks;
    Space space(library, library.operator()<hid_t>(get_space, transfer.dataset), true);
    blocks.ndims = library.operator()<int>(get_ndims, space.id());
    if (blocks.ndims <= 0 ||
        library.operator()<int>(get_dims, space.id(), blocks.dims, static_cast<hsize_t*>(nullptr)) < 0)
        return {};
    uint64_t row = extent.element, all = 1;
    for (int k = 1; k < blocks.ndims; ++k) row *= blocks.dims[k];
    for (int k = 0; k < blocks.ndims; ++k) all *= blocks.dims[k];
    if (all != extent.count) return {};  // an error that HDF5 is to find
    hsize_t step = 1, chunk[kMostDimensions];
    const hid_t properties = library.operator()<hid_t>(get_properties, transfer.dataset);
    if (library.operator()<int>(get_layout, properties) == kChunked &&
        library.operator()<int>(get_chunk, properties, blocks.ndims, chunk) == blocks.ndims)
        step = chunk[0];  // no chunk is in two blocks
    library.operator()<herr_t>(close_list, properties);
    const hsize_t fit = Staging::kPiece / row;
    blocks.rows = fit / step * step;
    return blocks;
}

// Says on HDF5's error stack, where programs look, and in the run's log, why a transfer failed.
herr_t fail(const char* what, int error, const void* caller) {
    log_event(event::cuda(what, error));
    Hdf5* library = hdf5_of(caller);
    const bool reads = strcmp(what, "H5Dread") == 0;
    auto* major = static_cast<const hid_t*>(resolve("H5E_DATASET_g", library->identity));
    auto* minor = static_cast<const hid_t*>(resolve(reads ? "H5E_READERROR_g" : "H5E_WRITEERROR_g", library->identity));
    if (library->error_class && major && minor)
        library->push_error(0, "wilkins", what, 0, *library->error_class, *major, *minor,
                            "the buffer is in a GPU's memory, which cannot be copied: CUDA error %d", error);
    return -1;
}

constexpr int kInvalidValue = 1, kOutOfMemory = 2;  // CUDA's

// Calls `transfer_piece(space in memory, space in the file, bytes from, bytes)` for every piece.
template <class F>
herr_t by_blocks(const OwnLibrary& library, const Transfer& transfer, const Blocks& blocks, size_t element,
                 F transfer_piece) {
    static NextFunction get_space("H5Dget_space"), create("H5Screate_simple"), select("H5Sselect_hyperslab");
    hsize_t start[kMostDimensions] = {}, count[kMostDimensions];
    memcpy(count, blocks.dims, sizeof(count));
    uint64_t row = element;
    for (int k = 1; k < blocks.ndims; ++k) row *= blocks.dims[k];
    Space file(library, library.operator()<hid_t>(get_space, transfer.dataset), true);
    for (hsize_t at = 0; at < blocks.dims[0]; at += blocks.rows) {
        start[0] = at;
        count[0] = blocks.dims[0] - at < blocks.rows ? blocks.dims[0] - at : blocks.rows;
        Space memory(library,
                     library.operator()<hid_t>(create, blocks.ndims, static_cast<const hsize_t*>(count),
                                               static_cast<const hsize_t*>(nullptr)),
                     true);
        if (library.operator()<herr_t>(select, file.id(), kSet, static_cast<const hsize_t*>(start),
                                       static_cast<const hsize_t*>(nullptr), static_cast<const hsize_t*>(count),
                                       static_cast<const hsize_t*>(nullptr)) < 0)
            return -1;
        const herr_t result =
            transfer_piece(memory.id(), file.id(), static_cast<size_t>(at * row), static_cast<size_t>(count[0] * row));
        if (result < 0) return result;
    }
    return 0;
}

// HDF5 leaves bytes of the buffer alone where the file has nothing for them: holes of a selection and of a compound
// type, and storage that was never allocated.
bool overwrites_all(const OwnLibrary& library, const Transfer& transfer, const Extent& extent) {
    static NextFunction get_class("H5Tget_class"), get_status("H5Dget_space_status");
    int status = 0;
    return extent.dense && library.operator()<int>(get_class, transfer.memory_type) != kCompound &&
           library.operator()<herr_t>(get_status, transfer.dataset, &status) >= 0 && status == kAllocated;
}

}  // namespace

bool is_staged(hid_t dataset, const void* buffer, const void* caller) {
    if (!DeviceMemory::holds(buffer) || !context().active) return false;
    static NextFunction get_name("H5Fget_name");
    char name[kNameMax];
    Match match;
    return OwnLibrary(caller).operator()<ssize_t>(get_name, dataset, static_cast<char*>(name), sizeof(name)) > 0 &&
           match_name(name, &match);
}

herr_t write_staged(const Transfer& transfer, const void* device, WriteCall call, const void* caller) {
    const OwnLibrary library(caller);
    Extent extent;
    if (has_pointers(library, transfer.memory_type)) return fail("H5Dwrite", kInvalidValue, caller);
    if (!find_extent(library, transfer, &extent))
        return call(transfer.dataset, transfer.memory_type, transfer.memory_space, transfer.file_space, transfer.list,
                    nullptr);
    const Blocks blocks = cut(library, transfer, extent, caller);
    const auto* from = static_cast<const unsigned char*>(device);
    const size_t room = blocks.rows ? Staging::kPiece : extent.bytes();
    Staging staging(room, device);
    if (room && !staging.bytes()) return fail("H5Dwrite", kOutOfMemory, caller);
    if (blocks.rows)
        return by_blocks(
            library, transfer, blocks, extent.element, [&](hid_t memory, hid_t file, size_t offset, size_t bytes) {
                if (const int error = DeviceMemory::to_host(staging.bytes(), from + offset, bytes))
                    return fail("H5Dwrite", error, caller);
                return call(transfer.dataset, transfer.memory_type, memory, file, transfer.list, staging.bytes());
            });
    const int error = room ? DeviceMemory::to_host(staging.bytes(), from + extent.offset(), room) : 0;
    if (error) return fail("H5Dwrite", error, caller);
    return call(transfer.dataset, transfer.memory_type, transfer.memory_space, transfer.file_space, transfer.list,
                staging.bytes() - extent.offset());
}

herr_t read_staged(const Transfer& transfer, void* device, ReadCall call, const void* caller) {
    const OwnLibrary library(caller);
    Extent extent;
    if (has_pointers(library, transfer.memory_type)) return fail("H5Dread", kInvalidValue, caller);
    if (!find_extent(library, transfer, &extent))
        return call(transfer.dataset, transfer.memory_type, transfer.memory_space, transfer.file_space, transfer.list,
                    nullptr);
    const Blocks blocks = cut(library, transfer, extent, caller);
    auto* to = static_cast<unsigned char*>(device);
    const bool whole = overwrites_all(library, transfer, extent);
    const size_t room = blocks.rows ? Staging::kPiece : extent.bytes();
    Staging staging(room, device);
    if (room && !staging.bytes()) return fail("H5Dread", kOutOfMemory, caller);
    const auto read_part = [&](hid_t memory, hid_t file, unsigned char* part, size_t bytes, size_t before) {
        int error = whole || !bytes ? 0 : DeviceMemory::to_host(staging.bytes(), part, bytes);
        if (error) return fail("H5Dread", error, caller);
        const herr_t result =
            call(transfer.dataset, transfer.memory_type, memory, file, transfer.list, staging.bytes() - before);
        if (result < 0 || !bytes) return result;
        error = DeviceMemory::to_device(part, staging.bytes(), bytes);
        return error ? fail("H5Dread", error, caller) : result;
    };
    if (blocks.rows)
        return by_blocks(library, transfer, blocks, extent.element,
                         [&](hid_t memory, hid_t file, size_t offset, size_t bytes) {
                             return read_part(memory, file, to + offset, bytes, 0);
                         });
    return read_part(transfer.memory_space, transfer.file_space, to + extent.offset(), room, extent.offset());
}

}  // namespace wilkins
