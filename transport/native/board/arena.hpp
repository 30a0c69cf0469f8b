// Arenas: the memory of steps. Each slot of the board owns a file of shared memory and a table of its blocks; a process
// maps both once and keeps the mapping, because fresh mappings and fresh pages cost many times a copy.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "board/board.hpp"

namespace wilkins {

inline constexpr uint64_t kBlock = 65536;  // bytes per entry of an arena's block table
inline constexpr uint64_t kGrain = 512;    // and of its table of grains
inline constexpr uint64_t kGrains = kBlock / kGrain;

class Arenas;

// A process's mapping of one slot's arena.
struct Mapping {
    unsigned char* bytes = nullptr;
    std::atomic<uint8_t>* blocks = nullptr;
    uint64_t length = 0;  // of address space; files can grow up to it
    // Bytes from the first one that may be touched; nullptr: all. A file is shorter than its mapping, and tools that
    // look at all that may be read (valgrind, gcore) would fault on every page of the rest.
    std::atomic<uint64_t>* open = nullptr;
    bool writable = false;
    bool kept = true;  // by the process; false: made for one handle on a step on disk, and unmapped with it
    // Whose slot it is, if its blocks may be written in parts; else nullptr.
    Arenas* arenas = nullptr;
    int slot = -1;
};

// Gives a file memory from `begin` to `end`, or none. Returns 0 or an errno.
int allocate_file(int fd, uint64_t begin, uint64_t end);

// Address space of `length` bytes, none of which may be touched yet: a file's, or (fd -1) memory of the process's own.
// Where a limit (ulimit -v, a memory checker) leaves less than that, it is what there is, and no less than `needed`.
// Returns 0 or an errno.
int map_most(int fd, uint64_t length, uint64_t needed, bool writable, Mapping* out);

void unmap(const Mapping& mapping);

// Lets the first `size` bytes be touched, if the mapping is so long, for good. Costs nothing where they may be. Returns
// 0 or an errno.
int open_further(const Mapping& mapping, uint64_t size);
inline int open_to(const Mapping& mapping, uint64_t size) {
    return !mapping.open || size <= mapping.open->load(std::memory_order_acquire) ? 0 : open_further(mapping, size);
}

class Arenas {
public:
    // nullptr: there is no memory for it.
    static Arenas* make(const Board& board);
    ~Arenas();

    // The mapping of a slot, made on first use, or every time if it is a file on disk: that is another one for every
    // step. Returns 0 or an errno.
    int map(int slot, bool writable, Mapping* out);

    // Gives the slot's arena memory for `size` bytes at least, within its port's cap. ENOSPC: shared memory is full;
    // EDQUOT: the cap is reached. Call without the board's lock.
    int reserve(int slot, uint64_t size);

    // Gives the slot, if its arena has never been one, the memory that was made ready for its source (see
    // board/ahead.hpp). Call before `map`, and without the board's lock.
    void adopt(int slot);

    // The entries of a block's grains. `make`: their table is made and given memory where it has none; else somebody
    // has done so. Returns 0 or an errno.
    int grains(int slot, uint64_t block, bool make, std::atomic<uint8_t>** out);

    // Of the source's slots that nobody holds: those of which no program can see the arena any more are known for it
    // again. Call with the board's lock held.
    void look_at_views(int source);
    // The same of one slot: can a program see its arena yet?
    bool is_viewed(int slot);
    // For the process that has just taken the slot: what programs can still see, or have queued somewhere, is not
    // written over. The slot gets another arena, or new memory. Returns 0 or an errno. Call before `adopt`, and without
    // the board's lock.
    int renew(int slot);
    // Gives back arenas of a port, or of all (port < 0), that were aside until no program could see them. True if there
    // was one. Call with the board's lock held.
    bool give_back_aside(int port);
    // The slot of whose arena this is a descriptor; -1: of none.
    int slot_of(int fd) const;

    // A handle on a step in the slot is made, or is no more.
    void count_user(int slot, int by);
    // A descriptor of the file of this inode, which is, or was, the slot's arena; -1 with errno.
    int open_former(int slot, uint64_t inode) const;

    // Cuts the arena's file to exactly `size` bytes.
    int trim(int slot, uint64_t size);

    // Gives back all memory of the slot's arena. False if it cannot. Call with the board's lock held, and so the next.
    bool empty(int slot);

    // The file on disk that was the slot's arena is no more.
    void note_gone(int slot);

    // The slot whose kept mapping holds an address, and the mapping; -1 for other memory.
    int find(const void* address, Mapping* out);

    // A new descriptor of the arena's file, or -1 with errno.
    int open(int slot, bool writable) const;

    // Nobody maps an arena while the process is forked: the child, which lacks all other threads, would wait for one of
    // them for ever.
    void before_fork() { mutex_.lock(); }
    void after_fork() { mutex_.unlock(); }

private:
    struct Kept : Mapping {
        uint64_t arena = 0;         // which of the slot's it is (see SlotRecord::arena),
        std::atomic<int> users{0};  // and handles on steps in it: some may be on one that is in another arena by now
        std::atomic<uint64_t> table{0};  // bytes of the block table that are known to have memory: those stay
        std::atomic<std::atomic<uint8_t>*> grains{nullptr};
        std::atomic<uint64_t> grains_mapped{0};  // bytes of it, at least: stored after the table
        std::atomic<uint64_t> grains_table{0};   // and those that are known to have memory
    };

    // Of each slot, once it is used: most of a run's are others'.
    using Places = std::unique_ptr<std::atomic<Kept*>[], decltype(&free)>;

    Arenas(const Board& board, Places places) : board_(board), places_(std::move(places)) {}
    Kept* kept(int slot);
    int reserve_table(int slot, uint64_t size);
    int make_table(int slot, int* fd) const;
    void cut_leftovers(int slot) const;
    bool can_be_seen(int slot) const;
    int set_aside(int slot);
    bool look_at_aside(int source, uint64_t number, uint64_t* left);
    void account_aside(int source, uint64_t bytes);
    void leave_former(int slot, Kept& kept);
    uint64_t account_for_adopted(int slot, uint64_t bytes);
    int map_table(int slot, bool writable, Mapping* kept) const;
    int extend_grains(int slot, Kept& kept, uint64_t needed, bool make);
    int map_bytes(int slot, bool writable, Mapping* out) const;
    bool on_disk(int slot) const;
    uint64_t room(int slot) const;
    bool keeps(int slot) const;
    void account(SlotRecord& slot, uint64_t bytes);
    void note_peak();

    const Board& board_;
    std::mutex mutex_;
    Places places_;
};

// Blocks of an arena's table, and grains of a block that is kParted. Of a lazy step: kAbsent, not here yet.
enum : uint8_t { kStale = 0, kZeroing = 1, kParted = 2, kValid = 3, kAbsent = 4 };

// Makes one block hold what the step should hold there: zeros, if nothing was written to it yet. Memory that the arena
// gets beyond the `reserved` bytes it has now, which may be touched, is zero as it comes. Returns 0 or an errno, as do
// the next.
int make_valid(const Mapping& mapping, uint64_t block, uint64_t reserved);

// The same for a block that will be written whole, which saves the zeroing,
int claim(const Mapping& mapping, uint64_t block);

// and for one within a write from `begin` to `end`. Others may write its other parts, so only what is around the ends
// is zeroed.
int claim_part(const Mapping& mapping, uint64_t block, uint64_t begin, uint64_t end, uint64_t reserved);

}  // namespace wilkins
