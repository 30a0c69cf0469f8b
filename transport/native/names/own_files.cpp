#include "names/own_files.hpp"

#include <cstring>

#include "base/patterns.hpp"
#include "board/past_names.hpp"
#include "names/first_opens.hpp"
#include "names/places.hpp"
#include "names/spelling.hpp"

namespace wilkins {

namespace {

// The file of this name, as the set of those that a task has made keeps it. False: its folder is not there.
bool file_key(const char* name, Key* out) {
    FolderName folder;
    folder_above(name, 1, folder);
    const Folder where = identify(folder);
    if (where.none()) return false;
    *out = key_of(where, last_components(name, 1));
    return true;
}

}  // namespace

bool make_own(const Process& p, const char* name) {
    TaskRecord& task = p.board.task(p.context.task);
    Key key;
    if (!file_key(name, &key)) return false;
    Board::Lock lock(p.board);
    if (past::has(p.board, task.made, key.text)) return false;
    past::add(p.board, task.made, key.text);
    ++task.makes;
    return true;
}

bool has_made(const Process& p, int index, const char* name) {
    const TaskRecord& task = p.board.task(index);
    Key key;
    if (task.makes.load(std::memory_order_relaxed) == 0 || !file_key(name, &key)) return false;
    Board::Lock lock(p.board);
    return past::has(p.board, task.made, key.text);
}

namespace {

// Of names that are no step's: an in-port whose pattern matches, or -1. Costs a comparison of last components for all
// others.
int inport_like(const Process& p, const char* name, char (&clean)[kNameMax]) {
    if (!p.context.active || !name || !name[0] || passing_through() || !could_match(name) ||
        !normalise(name, clean, sizeof(clean)))
        return -1;
    for (const PortRecord& port : ports_of(p, Direction::in))
        if (!port.keys.is_set && is_match(port, clean)) return p.board.index(port);
    return -1;
}

}  // namespace

void note_made(const char* name) {
    const Process& p = process();
    char clean[kNameMax];
    if (inport_like(p, name, clean) >= 0) make_own(p, clean);
}

void forget_made(const char* name) {
    const Process& p = process();
    char clean[kNameMax];
    Key key;
    if (!p.context.active) return;
    TaskRecord& task = p.board.task(p.context.task);
    if (task.makes.load(std::memory_order_relaxed) == 0 || inport_like(p, name, clean) < 0 || !file_key(clean, &key))
        return;
    Board::Lock lock(p.board);
    past::remove(p.board, task.made, key.text);
}

}  // namespace wilkins
