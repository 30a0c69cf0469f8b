// Steps on disk, for ports in mode `both` (memory, and the file that the program alone would have written) and `file`
// (the arena is that file).
//
// Nobody sees a partial file: until its step is closed it has a hidden name in the same folder,
// .wilkins-<uid>-<run>-<slot>, and then it takes the program's name in one rename. In mode `file` the hidden name stays
// a second name of the same file, so that the step's readers keep it whatever becomes of the other one. The run's
// folder in shared memory knows them all: its link f<slot> leads to the program's name, and for a file the arena
// a<slot> is a link to the hidden one. So whoever removes that folder, also after a crash, removes what is hidden
// first.
#pragma once

#include <sys/types.h>

#include "board/process.hpp"
#include "names/own_files.hpp"
#include "queue/alias.hpp"

namespace wilkins::disk {

inline constexpr char kHidden[] = ".wilkins-";

// Whether this port's steps are on disk as well, or only there. False for no port (-1).
bool has_files(const Board& board, int port);

// True if the arena of this slot is a file on disk.
bool is_file(const Board& board, int slot);

// A step begins: its hidden file is made, where and with the rights that the program's own would have. Returns 0 or the
// errno that the program alone would have met.
int begin(const Board& board, int slot);

// Whether the program could create the file of this name anew, as with O_EXCL. Relative names start at the working
// folder.
bool exists(const char* name);

// True of a directory. Leaves errno alone.
bool is_directory(const char* name);

// What is about to lie under the program's name, whole: where, and its number in the file system.
using Announce = void (*)(const Board& board, int slot, const char* hidden, const char* path, uint64_t inode);

// Gives the file `hidden`, which is going to be `path`, a second name in the run's records, and takes away that of an
// older one of the rank: a program may write its next file over this one. No-op for ports that keep none; errors are
// passed over.
void keep(const Board& board, int port, int rank, uint64_t sequence, const char* hidden, const char* path);

// The step is closed and `size` bytes long: its file takes the program's name, after `announce`. Returns 0 or an errno.
int settle(const Board& board, int slot, const unsigned char* image, uint64_t size, Announce announce);

// A file of a task's own: `fill` writes it by a descriptor and returns 0 or an errno, and then it takes the name, which
// is whole, with the rights of the file that it replaces, or else of one made anew. `fd`: its descriptor, to read and
// to write. Returns 0 or the errno that the program alone would have met.
int make_own(const Board& board, const char* name, int (*fill)(void* what, int fd), void* what, int* fd);

// The program renames a file that it has closed but may add to. Returns 0 or the errno that the program alone would
// have met.
int rename_file(const Board& board, int slot, const char* from, const char* to);

// The program goes on with a closed file of this name: that may be a symbolic link by now. Returns 0 or an errno.
int follow_name(const Board& board, int slot, const char* name);

// A folder has another name now, and with it, if it lies there, the slot's file. Both names are whole, and without
// links in the last component.
void move_folder(const Board& board, int slot, const char* from, const char* to);

// The program's name of the slot's file, whole; false: it has none.
bool file_name(const Board& board, int slot, char* out, size_t room);

// True if the slot's arena is the file of this name.
bool is_named(const Board& board, int slot, const char* name);

// The hidden name of the slot's file; false: it has none.
bool hidden_name(const Board& board, int slot, char* out, size_t room);

// Removes what is hidden of the slot's last step.
void forget(const Board& board, int slot);

// The mode bits that the calling thread's program has asked for; 0666 unless it did.
class Permission {
public:
    explicit Permission(mode_t mode);
    ~Permission();
    Permission(const Permission&) = delete;
    Permission& operator=(const Permission&) = delete;

private:
    mode_t before_;
};

// Maps a file of the disk for reading. Returns 0 or an errno.
struct Image {
    int fd;
    unsigned char* bytes;
    uint64_t size;      // of the file
    uint64_t length;    // of the mapping
    uint64_t identity;  // the same for the same file
};
int map_file(const char* name, Image* out);

// The same without the mapping: what stat tells. False if there is no such file.
bool look(const char* name, uint64_t* size, uint64_t* identity, int64_t* modified_ns);
bool look(const char* name, OnDisk* out);
uint64_t identity_of(const OnDisk& file);

}  // namespace wilkins::disk
