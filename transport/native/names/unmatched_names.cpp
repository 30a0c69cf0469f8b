// Remembers names that match no port.
#include "names/unmatched_names.hpp"

#include <algorithm>
#include <cstring>

#include "base/patterns.hpp"
#include "queue/alias.hpp"

namespace wilkins {

namespace {

constexpr size_t kLetters = 40;  // of names that are compared; longer ones are like none

const char* const kSuffixes[] = {"h5",   "hdf5", "hdf", "he5", "nc",   "nc4",    "cdf",
                                 "cgns", "silo", "mat", "exo", "h5md", "h5part", "h5ad"};

// The part behind the last dot; empty if there is none, or only one at the beginning.
const char* suffix_of(const char* last) {
    const char* const dot = strrchr(last, '.');
    return dot && dot != last ? dot + 1 : "";
}

// What is left of a name without numbers and wildcards; more than kLetters: too much to be compared.
size_t letters_of(const char* name, char (&out)[kLetters]) {
    size_t n = 0;
    for (; *name; ++name) {
        if ((*name >= '0' && *name <= '9') || *name == '*' || *name == '?' || *name == '[' || *name == ']') continue;
        if (n == kLetters) return kLetters + 1;
        out[n++] = *name;
    }
    return n;
}

bool may_be_meant(const Process& p, const char* last) {
    const char* const suffix = suffix_of(last);
    for (const char* usual : kSuffixes)
        if (*suffix == *usual && strcmp(suffix, usual) == 0) return true;
    for (const PortRecord& port : ports_of(p)) {
        const char* const wanted = last_components(own_pattern(port).text, 1);
        const char* const its = suffix_of(wanted);
        if ((*its && !has_wildcard(its) && strcmp(suffix, its) == 0) || alike(wanted, last)) return true;
    }
    return false;
}

bool has_wildcard_first(const char* name) { return *name == '*' || *name == '?' || *name == '['; }

}  // namespace

bool alike(const char* pattern, const char* name) {
    constexpr size_t kMost = 2, kFewest = 4;
    if (*pattern != *name && !has_wildcard_first(pattern)) return false;  // so almost all names of other files end here
    char a[kLetters], b[kLetters];
    const size_t n = letters_of(pattern, a), m = letters_of(name, b);
    if (n > kLetters || m > kLetters || n < kFewest || m < kFewest || n > m + kMost || m > n + kMost) return false;
    size_t row[kLetters + 1];
    for (size_t j = 0; j <= m; ++j) row[j] = j;
    for (size_t i = 1; i <= n; ++i) {
        size_t before = row[0]++;
        for (size_t j = 1; j <= m; ++j) {
            const size_t changed = before + (a[i - 1] != b[j - 1]);
            before = row[j];
            row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[m] <= kMost;
}

void note_unmatched(const Process& p, const char* name) {
    if (!may_be_meant(p, last_components(name, 1))) return;
    const uint64_t hash = hash_text(name) | 1;
    UnmatchedName* const places = p.board.unmatched_names(p.context.task);
    for (int k = 0; k < kUnmatchedNames; ++k) {
        UnmatchedName& place = places[k];
        uint64_t there = place.hash.load(std::memory_order_relaxed);
        if (there == 0 && place.hash.compare_exchange_strong(there, hash)) {
            const size_t length = strlen(name), most = sizeof(place.name) - 1;
            strcpy(place.name, length > most ? name + (length - most) : name);
            place.uses.fetch_add(1, std::memory_order_relaxed);
            place.whole.store(1, std::memory_order_release);
            return;
        }
        if (there != hash) continue;
        place.uses.fetch_add(1, std::memory_order_relaxed);
        return;
    }
}

void note_found_nothing(const Process& p, int inport, const char* name, bool looks) {
    PortRecord& port = p.board.port(inport);
    if (port.steps > 0) return;
    port.only_looks = looks && (port.found_nothing == 0 || port.only_looks);
    ++port.found_nothing;
    strcpy(port.missing_name, name);
}

void note_not_found(const Process& p, int inport, const char* file, const char* path, bool printed) {
    Board::Lock lock(p.board);
    PortRecord& port = p.board.port(inport);
    ++port.not_found;
    if (!printed && port.not_found_printed > 0) return;
    port.not_found_printed += printed;
    strcpy(port.not_found_path, path);
    strcpy(port.not_found_in, file);
}

}  // namespace wilkins
