// Where ports hold. An out-port's names are its task's in any folder, but for files that lie in another one than the
// task has put any in, or starts in. An in-port's are those in a folder where its producers put their files, or in
// which its task starts.
#pragma once

#include "base/folder.hpp"
#include "board/process.hpp"
#include "far/far_file.hpp"
#include "names/match.hpp"

namespace wilkins {

using FolderName = char[kNameMax];

inline bool same(const Folder& one, const Folder& other) { return !one.none() && one == other; }

// The folder above the name's last n components, as the name says it.
void folder_above(const char* name, int n, FolderName& out);

// The name from the root on. False if it is not known, or too long.
bool make_whole(const char* name, char (&out)[kNameMax]);

// The hash of the absolute path: where the process is, is asked once for a match, which is of one call.
uint64_t place_of(const Match& match);
uint64_t place_of(const char* name);

// The ones of a name, as the disk has them now; of a pattern with so many components.
Bases bases_of(const char* name, int components);

// Whether the port holds where the name lies. For an in-port, it is not yet known while a producer of it may still
// begin its first file there. Opens, looks, listings and waits for folders all go by this. Call with the lock held.
Held holds_in(const Process& p, int port, const Bases& bases);

// A folder, or a file in it, as sets of names keep it: without digits, which they take for numbers.
struct Key {
    char text[49];
};

Key key_of(const Folder& folder, const char* file = "");

// The same for a name. `waits`: until that is known. Takes the board's lock.
bool holds(Process& p, int port, const char* name, bool waits, Purpose purpose = Purpose::ask);

// The out-port of which a producer of the in-port has published this name; nullptr if none has. Call with the lock
// held.
const PortRecord* published_by(const Board& board, int inport, const char* name);

// For readers on another host: what it is for a folder, as this host knows it, and for those above it if the pattern
// holds there, too (`deep`).
Held holds_for_others(const char* folder, bool deep);

// True if an open or look of the name waits until a producer has begun files in its folder. Call with the lock held.
bool awaits_folders(const Process& p, int inport, Purpose purpose);

// A file of the out-port is begun: its readers know where it is. `folder`: that of the name.
void note_begun(const Process& p, int outport, const char* name, const Folder& folder);

}  // namespace wilkins
