// Snapshots: copying a file that is being written, and making the copy a closed HDF5 file.
#include "steps/snapshot.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/fault.hpp"
#include "board/process.hpp"
#include "events.hpp"
#include "steps/creating.hpp"
#include "steps/step_file.hpp"

namespace wilkins {

namespace {

thread_local Flushing flushing = Flushing::no;
std::atomic<bool> counting{false};

SlotRecord& slot_of(const StepFile* file) { return process().board.slot(file->state->slot); }

uint64_t mix(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * 0x9e3779b97f4a7c15ull;
    return lane ^ (lane >> 32);
}

// Four lanes, so that it goes as fast as memory.
uint64_t digest_bytes(const unsigned char* bytes, uint64_t size, uint64_t seed) {
    uint64_t lanes[4] = {seed, size, ~seed, ~size};
    uint64_t at = 0;
    for (; at + 32 <= size; at += 32)
        for (int k = 0; k < 4; ++k) {
            uint64_t word;
            memcpy(&word, bytes + at + size_t{8} * k, 8);
            lanes[k] = mix(lanes[k], word);
        }
    unsigned char rest[32] = {};
    if (at < size) memcpy(rest, bytes + at, size - at);
    for (int k = 0; k < 4; ++k) {
        uint64_t word;
        memcpy(&word, rest + size_t{8} * k, 8);
        lanes[k] = mix(lanes[k], word);
    }
    return mix(mix(lanes[0], lanes[1]), mix(lanes[2], lanes[3])) | 1;
}

// Where an HDF5 file's superblock is, and its parts that change when the file is closed.
struct Superblock {
    uint64_t at = 0;
    uint64_t length = 0;                  // 0: this is no HDF5 file
    uint64_t end_of_file = 0, width = 0;  // the address of its end
    uint64_t checksum = 0;                // 0: it has none
    uint64_t flags = 0, flag_bytes = 0;   // that say that it is open for writing
};

Superblock find_superblock(const unsigned char* bytes, uint64_t size) {
    static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    Superblock found;
    for (uint64_t at = 0; at + 32 <= size; at = at ? 2 * at : 512) {
        const unsigned char* block = bytes + at;
        if (memcmp(block, signature, sizeof(signature)) != 0) continue;
        const unsigned version = block[8];
        const bool old = version < 2;  // widths, flags and addresses lie elsewhere
        const uint64_t width = block[old ? 13 : 9];
        const uint64_t addresses = version == 0 ? 24 : version == 1 ? 28 : 12;
        const uint64_t length = addresses + 4 * width + (old ? 0 : 4);
        if (width == 0 || width > 8 || at + length > size) return found;
        found.at = at;
        found.length = length;
        found.end_of_file = addresses + 2 * width;
        found.width = width;
        found.checksum = old ? 0 : addresses + 4 * width;
        found.flags = old ? 20 : 11;
        found.flag_bytes = old ? 4 : 1;
        return found;
    }
    return found;
}

}  // namespace

Marks find_marks(const unsigned char* bytes, uint64_t size) {
    const Superblock super = find_superblock(bytes, size);
    if (super.length == 0) return {};
    const auto part = [&](uint64_t from, uint64_t count) {
        return ByteRange{super.at + from, super.at + from + count};
    };
    return {super.at,
            super.at + super.length,
            {part(super.flags, super.flag_bytes), part(super.end_of_file, super.width),
             part(super.checksum, super.checksum ? 4 : 0)}};
}

namespace {

uint32_t rotate(uint32_t value, int by) { return (value << by) | (value >> (32 - by)); }

// Jenkins' hash "lookup3" (hashlittle, public domain), with which HDF5 checks its metadata.
uint32_t lookup3(const unsigned char* key, size_t length) {
    uint32_t a = 0xdeadbeef + static_cast<uint32_t>(length), b = a, c = a;
    const auto word = [&](size_t at) {
        uint32_t value = 0;
        for (size_t k = 0; k < 4 && at + k < length; ++k) value |= static_cast<uint32_t>(key[at + k]) << (8 * k);
        return value;
    };
    size_t at = 0;
    for (; length - at > 12; at += 12) {
        a += word(at);
        b += word(at + 4);
        c += word(at + 8);
        a -= c;
        a ^= rotate(c, 4);
        c += b;
        b -= a;
        b ^= rotate(a, 6);
        a += c;
        c -= b;
        c ^= rotate(b, 8);
        b += a;
        a -= c;
        a ^= rotate(c, 16);
        c += b;
        b -= a;
        b ^= rotate(a, 19);
        a += c;
        c -= b;
        c ^= rotate(b, 4);
        b += a;
    }
    if (at == length) return c;
    a += word(at);
    b += word(at + 4);
    c += word(at + 8);
    c ^= b;
    c -= rotate(b, 14);
    a ^= c;
    a -= rotate(c, 11);
    b ^= a;
    b -= rotate(a, 25);
    c ^= b;
    c -= rotate(b, 16);
    a ^= c;
    a -= rotate(c, 4);
    b ^= a;
    b -= rotate(a, 14);
    c ^= b;
    c -= rotate(b, 24);
    return c;
}

// The task's process that opened the slot is its own; the match of its name as an out-port file.
Match match_of(const StepFile* file) {
    Match match;
    match.outport = process().board.source(slot_of(file).source).port;
    strcpy(match.name, file->name());
    return match;
}

void explain_unseen(StepFile* file) {
    const Process& p = process();
    PortRecord& port = p.board.port(p.board.source(slot_of(file).source).port);
    const AccessKeys& keys = port.keys;
    const bool seen = keys.publish == Publish::flush ? file->state->flushed : file->state->dataset_writes > 0;
    if (seen || slot_of(file).snapshots > 0 || port.unseen.fetch_add(1) > 0) return;
    if (keys.publish == Publish::flush) log_event(event::no_flush(file->name()));
    else log_event(event::no_write(file->name(), keys.publish_dset[0] != 0, keys.publish_dset));
}

}  // namespace

const AccessKeys* keys_of(const StepFile* file) {
    const Board& board = process().board;
    if (file->state->far && file->state->outport >= 0) return &board.port(file->state->outport).keys;
    if (file->state->slot < 0) return nullptr;
    return &board.port(board.source(slot_of(file).source).port).keys;
}

// Of what a file says. When HDF5 closes a file it gives back space behind the last byte it has written, and notes the
// new end: that does not count.
uint64_t digest_of(const unsigned char* bytes, uint64_t size) {
    const Superblock super = find_superblock(bytes, size);
    if (super.length == 0) return digest_bytes(bytes, size, 0);
    unsigned char head[64];
    memcpy(head, bytes + super.at, super.length);
    memset(head + super.end_of_file, 0, super.width);
    if (super.checksum) memset(head + super.checksum, 0, 4);
    const uint64_t behind = super.at + super.length;
    while (size > behind && bytes[size - 1] == 0) --size;
    return digest_bytes(bytes + behind, size - behind,
                        digest_bytes(head, super.length, digest_bytes(bytes, super.at, 1)));
}

void mark_closed(unsigned char* bytes, uint64_t size) {
    const Superblock super = find_superblock(bytes, size);
    if (super.length == 0) return;
    unsigned char* block = bytes + super.at;
    memset(block + super.flags, 0, super.flag_bytes);
    if (!super.checksum) return;
    const uint32_t sum = lookup3(block, super.checksum);
    for (int k = 0; k < 4; ++k)
        block[super.checksum + static_cast<uint64_t>(k)] = static_cast<unsigned char>(sum >> (8 * k));
}

int publish_snapshot(StepFile* file, bool again) {
    if (file->state->far) return file->state->far->publish();
    SlotRecord& slot = slot_of(file);
    const uint64_t changes = slot.changes.load();
    if (!again && slot.snapshots > 0 && slot.snapshot_changes == changes) return 0;
    if (const int broken = slot.broken.load()) return broken;
    int error = 0;
    StepFile* copy = begin_step(match_of(file), slot.source, slot.place_hash, Role::snapshot, &error);
    if (!copy) return error ? error : EIO;
    const uint64_t size = file->eof();
    error = copy->prepare_write(0, size, true);
    if (error) {
        discard_step(copy);
        return error;
    }
    file->read(0, copy->data(), size);
    mark_closed(copy->data(), size);
    const uint64_t seen = digest_of(copy->data(), size);
    WILKINS_FAULT_POINT("snapshot.copied");
    close_step(copy);
    WILKINS_FAULT_POINT("snapshot.published");
    Board::Lock lock(process().board);
    slot.snapshot_changes = changes;
    slot.digest = seen;
    ++slot.snapshots;
    return 0;
}

uint64_t final_digest(StepFile* file) {
    const AccessKeys* keys = keys_of(file);
    if (!keys || file->state->role == Role::snapshot) return 0;
    if (takes_snapshots(*keys)) explain_unseen(file);
    return slot_of(file).snapshots > 0 ? digest_of(file->data(), file->eof()) : 0;
}

void starts_as_snapshot(StepFile* file) {
    const AccessKeys* keys = keys_of(file);
    if (!keys || !takes_snapshots(*keys)) return;
    const uint64_t known = digest_of(file->data(), file->eof());
    Board::Lock lock(process().board);
    SlotRecord& slot = slot_of(file);
    slot.snapshot_changes = slot.changes.load();
    slot.digest = known;
    slot.snapshots = 1;
}

FlushCall::FlushCall(Flushing what) : before_(flushing) { flushing = what; }

FlushCall::~FlushCall() { flushing = before_; }

Flushing FlushCall::what() { return flushing; }

bool publishes(const StepFile* file, Flushing what) {
    const AccessKeys* keys = what == Flushing::no ? nullptr : keys_of(file);
    if (!keys) return false;
    if (what == Flushing::by_layer) return true;
    if (keys->publish == Publish::flush) file->state->flushed = true;
    return keys->publish == Publish::flush;
}

bool counts_writes() { return counting.load(std::memory_order_relaxed); }

void note_opened(const StepFile* file) {
    const AccessKeys* keys = keys_of(file);
    if (keys && keys->publish == Publish::write) counting.store(true, std::memory_order_relaxed);
}

}  // namespace wilkins
