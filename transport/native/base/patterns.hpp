// File names and port patterns: normalising, matching on last components, hashing. No allocation, no system call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wilkins {

inline constexpr size_t kNameMax = 1024;  // longest file name a step can carry, with its terminator

// Removes "./", "//" and "a/../" by the text alone. False if the result does not fit.
bool normalise(const char* name, char* out, size_t room);

// True if the pattern holds one of the wildcards * ? [.
bool has_wildcard(const char* pattern);

// Number of path components.
int count_components(const char* name);

// True if a folder of the pattern means any number of folders ("**"). Such a pattern is compared with whole names.
bool is_deep(const char* pattern);

// Last components that a pattern is compared with: its own number, or all.
inline constexpr int kAllComponents = 1 << 20;
int compared_components(const char* pattern);

// Bytes of an absolute pattern up to the folder in which its first wildcard, or its file, is: "/a/b/" of "/a/b/c*.h5".
size_t literal_folder(const char* pattern);

// The part of a normalised name that holds its last n components (the whole name if it has fewer).
const char* last_components(const char* name, int n);

// Shell pattern match in which * and ? do not match '/', and a folder ** stands for any number of folders, also for
// none.
bool glob_match(const char* pattern, const char* text);

// True if a normalised name matches a port's pattern. A relative pattern of n components is compared with the name's
// last n; one that is compared with all matches only names from the root on.
bool pattern_match(const char* pattern, int components, const char* name);

// True if the names have the same last component, or the same n last ones.
bool same_ends(const char* one, const char* other, int n);

// The name with every number as '#': names that differ only in their numbers have the same one.
void shape_of(const char* name, char* out, size_t room);

// FNV-1a.
uint64_t hash_text(const char* text, uint64_t seed = 1469598103934665603ull);

}  // namespace wilkins
