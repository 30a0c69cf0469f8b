// Aliases: names by which a program opens each next step of an in-port, whatever its producers call that.
//
// The workflow file may give one (`as:`). Or a program that gets the name of the next step (`{filename}`) opens another
// one: if that is unlike all names that were published for the port, and no file on disk, it is the port's alias from
// then on.
#pragma once

#include "board/board.hpp"

namespace wilkins {

// The pattern of the names that the port's program says, and how many last components of a name it is compared with:
// what the workflow file gives for it, or that of its producers' names.
struct OwnPattern {
    const char* text;
    int components;
};
OwnPattern own_pattern(const PortRecord& port);

// The same, also of an alias that the program's opens have made.
const char* own_name(const PortRecord& port);

// True if the program means files of its port by this (normalised) name; for in-ports, files to read.
bool is_called(const PortRecord& port, const char* name);

// True if the name `asked` means the step of the in-port that its producer has published as `published`. An alias means
// any of them.
bool means(const PortRecord& inport, const char* asked, const char* published);

// The name by which the in-port's program calls a step.
const char* name_for(const PortRecord& inport, const SlotRecord& slot);

// What stat tells of a file on disk.
struct OnDisk {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int64_t modified_ns;
};

namespace queue {

// True if steps were published for the in-port, and none has this name, or one that differs only in its numbers.
bool is_strange(const Board& board, const PortRecord& inport, const char* name);

// True if an open now would make the name the alias, unless a file on disk has it.
bool may_be_alias(const Board& board, const PortRecord& inport, const char* name);

// Such a name is opened, and `file` is the one on disk that has it, or nullptr.
void decide(const Board& board, int inport, int reader, const char* name, const OnDisk* file);

// The program opens a name. If it is like those of producers, these are what it means, once and for all.
void name_opened(const Board& board, int inport, const char* name);

// The program takes its steps one after the other by itself, and gets their names.
void keep_names(PortRecord& inport);

// An earlier run has left the file.
void left_by_run(const Board& board, int inport, const OnDisk& file);

// A step of this name was published for the in-port. If the alias is like it, the program was given other steps under
// that name: the run fails.
void remember_shape(const Board& board, int inport, const SourceRecord& source, const char* name);

}  // namespace queue
}  // namespace wilkins
