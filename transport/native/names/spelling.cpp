#include "names/spelling.hpp"

#include <climits>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/folder.hpp"
#include "base/patterns.hpp"
#include "names/places.hpp"
#include "queue/parts.hpp"

namespace wilkins {

namespace {

// A name from the root on, without symbolic links in its folder, if that is there: names that are compared as a whole
// are spelled so.
bool resolve_folder(char (&name)[kNameMax]) {
    FolderName folder;
    char real[PATH_MAX];
    folder_above(name, 1, folder);
    const int saved = errno;
    const bool there = realpath(folder, real);
    errno = saved;
    if (!there) return true;
    const char* const file = last_components(name, 1);
    const size_t length = strcmp(real, "/") == 0 ? 0 : strlen(real);
    if (length + 1 + strlen(file) >= kNameMax) return false;
    char spelled[kNameMax];
    memcpy(spelled, real, length);
    spelled[length] = '/';
    strcpy(spelled + length + 1, file);
    strcpy(name, spelled);
    return true;
}

// True if the pattern matches the name once that begins at the root, or once its folder is spelled as in the pattern.
// Then `name` becomes what it matches. For names that it does not match as they are.
bool matches_elsewhere(const OwnPattern& wanted, char (&name)[kNameMax]) {
    const char* const pattern = wanted.text;
    const bool absolute = pattern[0] == '/';
    const bool deep = wanted.components == kAllComponents;
    if (!glob_match(last_components(pattern, 1), last_components(name, 1))) return false;
    const bool short_of =
        name[0] != '/' && (count_components(name) < wanted.components || strncmp(name, "../", 3) == 0);
    char whole[kNameMax];
    if ((!absolute && !short_of && !deep) || !make_whole(name, whole) || (deep && !resolve_folder(whole))) return false;
    if (pattern_match(pattern, wanted.components, whole)) {
        strcpy(name, whole);
        return true;
    }
    if (!absolute || deep) return false;
    const char* const rest = pattern + literal_folder(pattern);
    const char* const end = last_components(whole, count_components(rest));
    if (!glob_match(rest, end)) return false;
    const auto head = static_cast<size_t>(rest - pattern);
    FolderName mine, wants;
    folder_above(whole, count_components(rest), mine);
    memcpy(wants, pattern, head);
    wants[head > 1 ? head - 1 : head] = 0;
    if (!same(identify(mine), identify(wants)) || head + strlen(end) >= kNameMax) return false;
    char spelled[kNameMax];
    memcpy(spelled, pattern, head);
    strcpy(spelled + head, end);
    strcpy(name, spelled);
    return true;
}

}  // namespace

bool is_match(const PortRecord& port, char (&name)[kNameMax]) {
    const OwnPattern wanted = own_pattern(port);
    return (wanted.components != kAllComponents && is_called(port, name)) || matches_elsewhere(wanted, name);
}

void spell_for_readers(const Board& board, const PortRecord& outport, char (&name)[kNameMax]) {
    for (const PortRecord& inport : inports_of(board, outport)) {
        const OwnPattern wanted = {inport.pattern, static_cast<int>(inport.components)};
        if (wanted.components == kAllComponents || !pattern_match(wanted.text, wanted.components, name))
            matches_elsewhere(wanted, name);
    }
}

}  // namespace wilkins
