// Folders of the disk, known by what they are and not by what they are called.
#pragma once

#include <cstdint>

namespace wilkins {

// A folder of a disk, by whatever name; none: there is no such folder.
struct Folder {
    uint64_t device = 0;
    uint64_t inode = 0;

    bool none() const { return inode == 0; }
    bool operator==(const Folder& other) const { return inode == other.inode && device == other.device; }
};

// The folders that decide whether a port holds for a name: the one above the components that its pattern has, and those
// above that one for a pattern that holds below, too. Ends with one that is not there.
struct Bases {
    static constexpr int kMost = 64;
    Folder folders[kMost];

    const Folder& nearest() const { return folders[0]; }
};

// The folder of this name, and the one that is open. They leave errno alone.
Folder identify(const char* folder);
Folder identify(int fd);

// Where a name lies: its folder on the disk.
Folder folder_of(const char* name);

}  // namespace wilkins
