// What device buffers ask of the layer: which arena an address lies in. A C interface for wilkins/transport/devices/pinned.py.
#include <cstdint>

#include "process.hpp"

#define WILKINS_API extern "C" __attribute__((visibility("default")))

using namespace wilkins;

struct ArenaPart {
    uint64_t base;
    uint64_t length;  // bytes of memory that the arena has
    uint64_t cuts;    // how often it has lost memory
    int32_t writable;
    int32_t kept;
    int32_t slot;
};

// 1, and fills `part`, if the process keeps a mapping of an arena that holds the address.
WILKINS_API int wilkins_arena_at(uint64_t address, ArenaPart* part) {
    if (!context().active) return 0;
    Process& p = process();
    Mapping mapping;
    const int slot = p.arenas->find(reinterpret_cast<const void*>(address), &mapping);
    if (slot < 0) return 0;
    const SlotRecord& record = p.board.slot(slot);
    const uint64_t size = record.reserved.load(std::memory_order_acquire);
    *part = {reinterpret_cast<uint64_t>(mapping.bytes), size, record.cuts.load(std::memory_order_acquire), mapping.writable, mapping.kept,
             slot};
    return 1;
}
