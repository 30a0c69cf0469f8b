// HDF5's transfers to and from device memory, through host memory.
#pragma once

#include "hdf5/device_memory.hpp"
#include "hdf5/hdf5.hpp"

namespace wilkins {

// One dataset's part in a transfer.
struct Transfer {
    hid_t dataset;
    hid_t memory_type;
    hid_t memory_space;
    hid_t file_space;
    hid_t list;
};

using WriteCall = herr_t (*)(hid_t, hid_t, hid_t, hid_t, hid_t, const void*);
using ReadCall = herr_t (*)(hid_t, hid_t, hid_t, hid_t, hid_t, void*);

// True of a device pointer that is written to or read from a file of a port. Other files are none of ours.
bool is_staged(hid_t dataset, const void* buffer, const void* caller);

// H5Dwrite and H5Dread with a device pointer, by HDF5's own call.
herr_t write_staged(const Transfer& transfer, const void* device, WriteCall call, const void* caller);
herr_t read_staged(const Transfer& transfer, void* device, ReadCall call, const void* caller);

}  // namespace wilkins
