// A set of names: hashes in tables that are added one by one, each twice as large as the last, and numbered names as
// ranges. A table never moves, and every change ends in one store: a process may die anywhere in between.
#include "board/past_names.hpp"

#include <cstring>

#include "base/fault.hpp"
#include "base/patterns.hpp"

namespace wilkins::past {

namespace {

constexpr uint64_t kIsThere = 1;  // the lowest bit of an entry: the name was not removed
constexpr uint64_t kEstablished =
    32;                         // names from which a range stands for them; the first ones are in the tables, too
constexpr int kGroups = 4;      // digits in one name that are looked at
constexpr size_t kDigits = 18;  // of a number that surely fits

uint64_t capacity(int table) { return uint64_t{kNearNames} << table; }

// The name's entry in a table without its lowest bit; never 0, which is an empty place.
uint64_t entry_of(const char* name) {
    const uint64_t hash = hash_text(name) & ~kIsThere;
    return hash ? hash : 2;
}

uint64_t* table_of(const Board& board, const NameSet& names, int k) {
    if (k == 0) return const_cast<uint64_t*>(names.near);
    return names.tables[k] ? reinterpret_cast<uint64_t*>(board.annex(names.tables[k])) : nullptr;
}

// The place of the entry in a table, or the empty one where it would go; nullptr: it is full without it.
uint64_t* place_in(uint64_t* table, uint64_t size, uint64_t entry) {
    const uint64_t begin = (entry * 0x9e3779b97f4a7c15ull) >> 20;
    for (uint64_t n = 0; n < size; ++n) {
        uint64_t& place = table[(begin + n) & (size - 1)];
        if (place == 0 || (place & ~kIsThere) == entry) return &place;
    }
    return nullptr;
}

// True if no name is in it, nor was one. Most sets stay so: their questions cost nothing.
bool is_empty(const NameSet& names) { return names.stored == 0; }

uint64_t* find_entry(const Board& board, const NameSet& names, uint64_t entry) {
    for (int k = 0; k < kNameTables; ++k) {
        uint64_t* const table = table_of(board, names, k);
        if (!table) break;
        uint64_t* const place = place_in(table, capacity(k), entry);
        if (place && *place) return place;
    }
    return nullptr;
}

// A number in a name, and what the name is without it.
struct Numbered {
    uint64_t family;
    int64_t number;
    uint32_t digits;  // as written
    uint32_t needed;  // as written without leading zeros
};

uint64_t hash_part(const char* text, size_t length, uint64_t seed) {
    for (size_t k = 0; k < length; ++k) seed = (seed ^ static_cast<unsigned char>(text[k])) * 1099511628211ull;
    return seed;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The numbers in a name, the last ones; how many.
int split(const char* name, Numbered (&out)[kGroups]) {
    int count = 0;
    for (size_t end = strlen(name); end > 0 && count < kGroups;) {
        if (!is_digit(name[end - 1])) {
            --end;
            continue;
        }
        size_t begin = end;
        while (begin > 0 && is_digit(name[begin - 1])) --begin;
        if (end - begin <= kDigits) {
            Numbered& n = out[count++];
            n.number = 0;
            size_t zeros = begin;
            while (zeros + 1 < end && name[zeros] == '0') ++zeros;
            for (size_t k = zeros; k < end; ++k) n.number = n.number * 10 + (name[k] - '0');
            n.digits = static_cast<uint32_t>(end - begin);
            n.needed = static_cast<uint32_t>(end - zeros);
            n.family = hash_text(name + end, hash_part("#", 2, hash_part(name, begin, hash_text(""))));
        }
        end = begin;
    }
    return count;
}

// True if the number is written as those of the range are: with leading zeros up to its width, or without any.
bool written_alike(const NameRange& range, const Numbered& n) {
    return range.family == n.family && n.digits == (n.needed > range.width ? n.needed : range.width);
}

// The name's place in the range; `count` or more: it is not in it.
uint64_t place_in(const NameRange& range, const Numbered& n) {
    if (!written_alike(range, n) || range.count == 0) return range.count;
    const int64_t way = n.number - range.first;
    if (way == 0) return 0;
    if (range.count == 1 || way % range.stride != 0 || way / range.stride < 0) return range.count;
    return static_cast<uint64_t>(way / range.stride);
}

// The range that stands for the name, and its place in it; nullptr: none does.
NameRange* find_range(const NameSet& names, const Numbered (&numbers)[kGroups], int count, uint64_t* place) {
    for (const NameRange& range : names.ranges) {
        if (range.count < kEstablished) continue;
        for (int k = 0; k < count; ++k)
            if ((*place = place_in(range, numbers[k])) < range.count) return const_cast<NameRange*>(&range);
    }
    return nullptr;
}

bool goes_on(const NameRange& range, const Numbered& n) {
    if (range.count == 0 || !written_alike(range, n)) return false;
    const int64_t way = n.number - range.first;
    if (range.count == 1) return way != 0;
    return way == range.stride * static_cast<int64_t>(range.count);
}

// The name goes on with the range: it stands for one more.
void append(NameSet& names, NameRange& range, const Numbered& n) {
    if (range.count == 1) range.stride = n.number - range.first;
    range.used = ++names.clock;
    WILKINS_FAULT_POINT("names.goes-on");
    ++range.count;
}

// The range that a name without one may begin: an empty one, or the one that has not gone on for longest; nullptr: all
// stand for names.
NameRange* spare_range(NameSet& names) {
    NameRange* best = nullptr;
    for (NameRange& range : names.ranges)
        if (range.count < kEstablished && (!best || range.used < best->used)) best = &range;
    return best;
}

void begin_range(NameSet& names, const Numbered& n) {
    NameRange* const range = spare_range(names);
    if (!range) return;
    range->count = 0;
    WILKINS_FAULT_POINT("names.range-emptied");
    *range = {n.family, n.number, 0, 0, kEstablished, ++names.clock, n.digits > n.needed ? n.digits : 1};
    WILKINS_FAULT_POINT("names.range-begun");
    range->count = 1;
}

// The table that takes new entries: the last one.
int last_table(const NameSet& names) {
    int k = 0;
    while (k + 1 < kNameTables && names.tables[k + 1]) ++k;
    return k;
}

// Entries of which all tables up to this one are half full.
uint64_t comfortable(int table) { return (capacity(table + 1) - kNearNames) / 2; }

void store(const Board& board, NameSet& names, uint64_t entry) {
    make_room(board, names, 1);
    const int k = last_table(names);
    uint64_t* const table = table_of(board, names, k);
    uint64_t* const place = table ? place_in(table, capacity(k), entry & ~kIsThere) : nullptr;
    if (!place) return;
    ++names.stored;  // first: a process that dies in between makes the next table come early
    WILKINS_FAULT_POINT("names.counted");
    *place = entry;
}

}  // namespace

bool make_room(const Board& board, NameSet& names, uint64_t more) {
    for (int k = last_table(names); names.stored + more > comfortable(k); ++k) {
        if (k + 1 == kNameTables) return false;
        const uint64_t handle = board.extend(capacity(k + 1) * sizeof(uint64_t));
        if (!handle) return false;
        WILKINS_FAULT_POINT("names.table");
        names.tables[k + 1] = handle;
    }
    return true;
}

bool knows(const Board& board, const NameSet& names, const char* name) {
    if (is_empty(names)) return false;
    if (find_entry(board, names, entry_of(name))) return true;
    Numbered numbers[kGroups];
    uint64_t place;
    return find_range(names, numbers, split(name, numbers), &place) != nullptr;
}

bool has(const Board& board, const NameSet& names, const char* name) {
    if (is_empty(names)) return false;
    if (const uint64_t* entry = find_entry(board, names, entry_of(name))) return *entry & kIsThere;
    Numbered numbers[kGroups];
    uint64_t place;
    const NameRange* const range = find_range(names, numbers, split(name, numbers), &place);
    return range && place >= range->gone;
}

void add(const Board& board, NameSet& names, const char* name) {
    const uint64_t hash = entry_of(name);
    if (uint64_t* entry = find_entry(board, names, hash)) {
        *entry |= kIsThere;
        return;
    }
    Numbered numbers[kGroups];
    const int count = split(name, numbers);
    uint64_t place;
    if (const NameRange* range = find_range(names, numbers, count, &place)) {
        if (place < range->gone) store(board, names, hash | kIsThere);
        return;
    }
    for (NameRange& range : names.ranges)
        for (int k = 0; k < count; ++k) {
            if (!goes_on(range, numbers[k])) continue;
            if (range.count < kEstablished) store(board, names, hash | kIsThere);
            return append(names, range, numbers[k]);
        }
    store(board, names, hash | kIsThere);
    for (int k = 0; k < count; ++k) begin_range(names, numbers[k]);
}

bool remove(const Board& board, NameSet& names, const char* name) {
    if (is_empty(names)) return false;
    const uint64_t hash = entry_of(name);
    if (uint64_t* entry = find_entry(board, names, hash)) {
        const bool was_there = *entry & kIsThere;
        *entry &= ~kIsThere;
        return was_there;
    }
    Numbered numbers[kGroups];
    uint64_t place;
    NameRange* const range = find_range(names, numbers, split(name, numbers), &place);
    if (!range || place < range->gone) return false;
    if (place == range->gone) ++range->gone;
    else store(board, names, hash);
    return true;
}

}  // namespace wilkins::past
