// File names and port patterns.
#include "base/patterns.hpp"

#include <cstring>

namespace wilkins {

bool normalise(const char* name, char* out, size_t room) {
    if (room < 2) return false;
    const bool absolute = name[0] == '/';
    size_t end = 0;
    if (absolute) out[end++] = '/';
    const size_t root = end;
    const char* at = name;
    while (*at) {
        while (*at == '/') ++at;
        const char* stop = at;
        while (*stop && *stop != '/') ++stop;
        const size_t length = static_cast<size_t>(stop - at);
        if (length == 0) break;
        const bool dot = length == 1 && at[0] == '.';
        const bool up = length == 2 && at[0] == '.' && at[1] == '.';
        if (up && end > root) {
            size_t begin = end;
            while (begin > root && out[begin - 1] != '/') --begin;
            const bool was_up = end - begin == 2 && out[begin] == '.' && out[begin + 1] == '.';
            if (!was_up) {
                end = begin > root ? begin - 1 : root;
                at = stop;
                continue;
            }
        }
        if (!dot && !(up && absolute && end == root)) {
            if (end + length + 2 > room) return false;
            if (end > root) out[end++] = '/';
            memcpy(out + end, at, length);
            end += length;
        }
        at = stop;
    }
    out[end] = 0;
    return true;
}

bool has_wildcard(const char* pattern) { return strpbrk(pattern, "*?[") != nullptr; }

int count_components(const char* name) {
    int n = 0;
    bool inside = false;
    for (; *name; ++name) {
        if (*name == '/') inside = false;
        else if (!inside) {
            inside = true;
            ++n;
        }
    }
    return n;
}

size_t literal_folder(const char* pattern) {
    size_t end = strcspn(pattern, "*?[");
    while (end > 0 && pattern[end - 1] != '/') --end;
    return end;
}

bool is_deep(const char* pattern) {
    for (const char* at = pattern; (at = strstr(at, "**/")); ++at)
        if (at == pattern || at[-1] == '/') return true;
    return false;
}

int compared_components(const char* pattern) { return is_deep(pattern) ? kAllComponents : count_components(pattern); }

const char* last_components(const char* name, int n) {
    const char* at = name + strlen(name);
    while (at > name) {
        if (at[-1] == '/' && --n == 0) return at;
        --at;
    }
    return name;
}

namespace {

// Matches one bracket expression; *next is set behind it. An expression without its end is an ordinary '['.
bool bracket(const char* pattern, char c, const char** next, bool* closed) {
    const char* at = pattern + 1;
    const bool negated = *at == '!' || *at == '^';
    if (negated) ++at;
    bool found = false;
    for (bool first = true; *at && (first || *at != ']'); first = false) {
        char low = *at++;
        char high = low;
        if (*at == '-' && at[1] && at[1] != ']') {
            high = at[1];
            at += 2;
        }
        found = found || (low <= c && c <= high);
    }
    *closed = *at == ']';
    *next = at + 1;
    return found != negated && c != '/';
}

}  // namespace

namespace {

// True if the pattern matches what is left of the text from some folder on.
bool match_below(const char* pattern, const char* text) {
    for (const char* at = text; at; at = strchr(at, '/')) {
        if (*at == '/') ++at;
        if (glob_match(pattern, at)) return true;
    }
    return false;
}

}  // namespace

bool glob_match(const char* pattern, const char* text) {
    const char* const begin = pattern;
    const char* star = nullptr;
    const char* retry = nullptr;
    while (*text) {
        bool matched = false;
        const char* next = pattern + 1;
        const bool folders = strncmp(pattern, "**/", 3) == 0 && (pattern == begin || pattern[-1] == '/');
        if (folders && match_below(pattern + 3, text)) return true;
        if (*pattern == '*' && !folders) {
            star = pattern++;
            retry = text;
            continue;
        }
        if (folders) matched = false;
        else if (*pattern == '?') matched = *text != '/';
        else if (*pattern == '[') {
            bool closed = false;
            matched = bracket(pattern, *text, &next, &closed);
            if (!closed) {
                next = pattern + 1;
                matched = *text == '[';
            }
        } else {
            matched = *pattern == *text && *pattern;
        }
        if (matched) {
            pattern = next;
            ++text;
        } else if (star && *retry != '/') {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') ++pattern;
    return *pattern == 0;
}

bool pattern_match(const char* pattern, int components, const char* name) {
    if (pattern[0] == '/') return glob_match(pattern, name);
    if (components == kAllComponents) return name[0] == '/' && match_below(pattern, name);
    return glob_match(pattern, last_components(name, components));
}

bool same_ends(const char* one, const char* other, int n) {
    return strcmp(last_components(one, n), last_components(other, n)) == 0;
}

void shape_of(const char* name, char* out, size_t room) {
    size_t end = 0;
    for (bool before = false; *name && end + 1 < room; ++name) {
        const bool digit = *name >= '0' && *name <= '9';
        if (!digit || !before) out[end++] = digit ? '#' : *name;
        before = digit;
    }
    out[end] = 0;
}

uint64_t hash_text(const char* text, uint64_t seed) {
    for (; *text; ++text) seed = (seed ^ static_cast<unsigned char>(*text)) * 1099511628211ull;
    return seed;
}

}  // namespace wilkins
