// Device pointers in the buffers of HDF5's calls: distinguished from host pointers, and their bytes copied.
#pragma once

#include <cstddef>

namespace wilkins {

// Memory of CUDA devices, by the driver of the process. It is never loaded here: a program that has device pointers has
// it.
class DeviceMemory {
public:
    // True if the pointer leads to memory of a device, which the host cannot read. Without CUDA in the process, this
    // makes no system call and no allocation.
    static bool holds(const void* pointer);

    // Copies bytes, after everything that the memory's context does now; 0 or the driver's error.
    static int to_host(void* host, const void* device, size_t bytes);
    static int to_device(void* device, const void* host, size_t bytes);
};

// Host memory in the place of device memory while a call runs. Up to kPiece bytes, one that is kept and known to CUDA.
class Staging {
public:
    Staging(size_t bytes, const void* device);
    ~Staging();
    unsigned char* bytes() const { return bytes_; }  // nullptr: there is no memory
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    static constexpr size_t kPiece = 16u << 20;

private:
    unsigned char* bytes_ = nullptr;
    bool kept_ = false;
};

}  // namespace wilkins
