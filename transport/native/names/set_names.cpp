// Which step a file of several names belongs to, by the text that stands for the number.
#include "names/set_names.hpp"

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "base/raw.hpp"
#include "board/process.hpp"
#include "names/set_folder.hpp"

namespace wilkins::sets {

namespace {

enum class Known { unknown, none, some };
std::atomic<Known> ports{Known::unknown};

using Texts = std::vector<std::string>;  // what stands for the wildcards of a name that are its number

// The list's names within their folder, the first one first, until one visit returns true.
template <class Visit>
bool any_name(const PortRecord& port, Visit visit) {
    if (visit(std::string(last_components(port.pattern, 1)))) return true;
    for (const char* at = port.keys.beside; *at;) {
        const size_t length = strcspn(at, "\n");
        if (visit(std::string(at, length))) return true;
        at += length + (at[length] != 0);
    }
    return false;
}

// True if the number is that of '*'. If no name has one, the text of all wildcards counts.
bool has_stars(const PortRecord& port) { return strchr(last_components(port.pattern, 1), '*') != nullptr; }

// Length of the letter or the wildcard at the beginning of a pattern.
size_t length_of_first(const char* pattern) {
    if (*pattern != '[') return 1;
    const char* at = pattern + 1;
    if (*at == '!' || *at == '^') ++at;
    const char* const end = *at ? strchr(at + 1, ']') : nullptr;
    return end ? static_cast<size_t>(end - pattern) + 1 : 1;
}

bool is_number(const char* pattern, size_t length, bool stars) {
    return *pattern == '*' || (!stars && (*pattern == '?' || length > 1));
}

bool take_number(const char* pattern, const char* text, bool stars, Texts& number) {
    if (!*pattern) return !*text;
    const size_t length = length_of_first(pattern);
    for (size_t taken = *pattern == '*' ? 0 : 1;; ++taken) {
        const std::string part(text, strnlen(text, taken));
        if (part.size() < taken || !glob_match(std::string(pattern, length).c_str(), part.c_str())) return false;
        const size_t before = number.size();
        if (is_number(pattern, length, stars)) number.push_back(part);
        if (take_number(pattern + length, text + taken, stars, number)) return true;
        number.resize(before);
        if (*pattern != '*') return false;
    }
}

// The name with the number in it. False: it stands for several files.
bool fill(const std::string& pattern, bool stars, const Texts& number, std::string& name) {
    size_t next = 0;
    name.clear();
    for (size_t at = 0; at < pattern.size();) {
        const char* const here = pattern.c_str() + at;
        const size_t length = length_of_first(here);
        if (is_number(here, length, stars)) name += next < number.size() ? number[next++] : "";
        else if (*here == '?' || length > 1) return false;
        else name += *here;
        at += length;
    }
    return true;
}

// The number of a file; of several names that could be its own, the one with the shortest number is. False: it is no
// file of the list.
bool number_of(const PortRecord& port, const char* file, Texts* number, std::string* named) {
    const bool stars = has_stars(port);
    size_t shortest = SIZE_MAX;
    any_name(port, [&](const std::string& name) {
        Texts found;
        if (!take_number(name.c_str(), file, stars, found)) return false;
        size_t length = 0;
        for (const std::string& text : found) length += text.size();
        if (length >= shortest) return false;
        shortest = length;
        *number = std::move(found);
        *named = name;
        return false;
    });
    return shortest != SIZE_MAX;
}

}  // namespace

bool is_listed(const PortRecord& port, const char* file) {
    return any_name(port, [&](const std::string& name) { return glob_match(name.c_str(), file); });
}

bool step_of_file(const PortRecord& port, const char* name, char (&step)[kNameMax]) {
    const char* const file = last_components(name, 1);
    Texts number;
    std::string named, first;
    if (!is_listed(port, file) || !number_of(port, file, &number, &named)) return false;
    if (!fill(last_components(port.pattern, 1), has_stars(port), number, first)) return false;
    const auto folder = static_cast<size_t>(file - name);
    if (folder + first.size() >= sizeof(step)) return false;
    memmove(step, name, folder);
    strcpy(step + folder, first.c_str());
    return true;
}

bool has_all(const PortRecord& port, const char* step, const char* folder) {
    Texts number;
    std::string named;
    const char* const file = last_components(step, 1);
    if (!number_of(port, file, &number, &named)) return false;
    return !any_name(port, [&](const std::string& name) {
        std::string one;
        if (fill(name, has_stars(port), number, one))
            return raw::access((std::string(folder) + "/" + one).c_str()) != 0;
        bool found = false;
        each_entry(folder, [&](const char* entry) {
            Texts other;
            found = found || (number_of(port, entry, &other, &named) && named == name && other == number);
        });
        return !found;
    });
}

bool may_be_any() { return ports.load(std::memory_order_relaxed) != Known::none; }

bool any() {
    Known known = ports.load(std::memory_order_relaxed);
    if (known == Known::unknown) {
        const Process& p = process();
        if (!p.context.active) return false;
        known = Known::none;
        for (const PortRecord& port : ports_of(p))
            if (port.keys.is_set) known = Known::some;
        ports = known;
    }
    return known == Known::some;
}

}  // namespace wilkins::sets
