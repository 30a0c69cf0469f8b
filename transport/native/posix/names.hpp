// Which names of the C library's calls lead to steps, and what such a name looks like from outside.
#pragma once

#include <limits.h>

#include "posix/libc.hpp"
#include "store/store.hpp"

namespace wilkins::posix {

// True if this process is part of a run, and the call is the program's own.
bool in_run(const void* caller);

// A name that a call gives relative to an open directory, made whole if it could be a port's, or, if that matters, a
// folder's of files that are; any other stays as it is.
class NameAt {
public:
    NameAt(int dirfd, const char* path, const void* caller, bool may_be_folder = false);
    operator const char*() const { return name_; }
    NameAt(const NameAt&) = delete;
    NameAt& operator=(const NameAt&) = delete;

private:
    const char* name_;
    char whole_[PATH_MAX + kNameMax];
};

// match_name for a call made by the program: false for calls from inside this library, and while the process is still
// joining the run. False too if the disk answers for the name: as it does now (see names/first_opens.hpp), or because
// it has a directory of that name there.
bool matches(const char* name, Match* match, const void* caller, Purpose purpose = Purpose::ask);

// True if the folder, which the disk does not have, is that of an in-port, and a producer has made it by now. Else
// errno stays as it is.
bool comes_later(const char* path, const void* caller);

// What the disk says of a name, when it has been given time to have the folders of in-ports.
template <class Call>
int look_on_disk(const char* path, const void* caller, Call call) {
    const int result = call();
    return result != 0 && comes_later(path, caller) ? call() : result;
}

// Fills `st` for a step. Both names of it (stat) and descriptors (fstat) show the same device, inode and size.
void describe(uint64_t size, uint64_t identity, int64_t modified_ns, struct stat* st);
void describe(const struct stat& st, struct statx* stx);

// What a call answers, given an errno or 0.
inline int succeed_or(int error) {
    if (!error) return 0;
    errno = error;
    return -1;
}

// stat of a matching name: 0, or -1 with ENOENT. Never waits, never asks the disk.
int stat_match(const Match& match, struct stat* st);

// The same for the program: of a name that the task only reads it waits as an open would.
int look_at(const Match& match, struct stat* st);

// What stat, or lstat if links are not followed, answers the program.
int stat_for_program(const char* path, struct stat* st, bool follow);

// What calls of names relative to a folder answer the program.
int stat_at(int dirfd, const char* path, struct stat* st, int flags, const void* caller);
int statx_at(int dirfd, const char* path, int flags, unsigned mask, struct statx* stx, const void* caller);
int access_at(int dirfd, const char* path, int mode, int flags, const void* caller);
int unlink_at(int dirfd, const char* path, int flags, const void* caller);
int rename_at(int from_dir, const char* from, int to_dir, const char* to, unsigned flags, const void* caller);

// True if the process has loaded an HDF5 whose calls the HDF5 wrappers reach. Then a look through the C library is only
// a look.
bool has_shared_hdf5();

// True if there are more HDF5 libraries than one.
bool has_several_hdf5();

}  // namespace wilkins::posix
