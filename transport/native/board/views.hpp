// What programs can see of an arena though they have closed its step: by a mapping, in a child of theirs, in a message
// on its way.
//
// Each descriptor that a program gets of an arena has a lock on one byte, of the open-file-description kind: it lasts
// for as long as anything has that description, and no longer. Mappings of the layer itself are made through
// descriptors without it.
#pragma once

namespace wilkins::views {

// Lets the description of the descriptor, which can be read, keep what it shows. Returns 0 or an errno.
int keep(int fd);

// The same, if another description of that file does so.
void keep_too(int fd);

// Does any description?
bool are_any(int fd);

// A page of the file of this descriptor, which keeps it as a descriptor would; nullptr: there is none. Closes the
// descriptor.
void* keep_by_page(int fd);
void let_go(void* page);

}  // namespace wilkins::views
