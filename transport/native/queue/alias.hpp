// Names that stand for the next step of an in-port, whatever its producers call that.
//
// The workflow file may give one (`as:`). Or a program that is told the name of the next step (`{filename}`) opens another one: if that is
// unlike all names that were published for the port, and no file on disk, it stands for the next step from then on.
#pragma once

#include "board/board.hpp"

namespace wilkins {

// The pattern of the names that the port's program says, and how many last components of a name it is compared with: what the workflow file
// gives for it, or that of its producers' names.
struct OwnPattern {
    const char* text;
    int components;
};
OwnPattern own_pattern(const PortRecord& port);

// The same, also of a name that has come to stand for the steps.
const char* own_name(const PortRecord& port);

// Does the program mean files of its port by this (normalised) name? For in-ports: files to read.
bool is_called(const PortRecord& port, const char* name);

// Does the name, as the program says it, mean a step of the in-port that its producer has published under the other one? A name that
// stands in means any of them.
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

// Has the in-port had steps, none of which has this name, or one that differs only in its numbers?
bool is_strange(const Board& board, const PortRecord& inport, const char* name);

// Would the name stand in if it were opened now, and no file on disk had it?
bool may_be_alias(const Board& board, const PortRecord& inport, const char* name);

// Such a name is opened, and `file` is the one on disk that has it, or nullptr.
void decide(const Board& board, int inport, int reader, const char* name, const OnDisk* file);

// The program opens a name. If it is like those of producers, these are what it means, once and for all.
void name_opened(const Board& board, int inport, const char* name);

// The program takes its steps one after the other by itself, and is told their names.
void keep_names(PortRecord& inport);

// An earlier run has left the file.
void left_by_run(const Board& board, int inport, const OnDisk& file);

// A step of this name was published for the in-port. If a name stands in that is like it, the program was given other steps under that
// name: the run fails.
void remember_shape(const Board& board, int inport, const SourceRecord& source, const char* name);

}  // namespace queue
}  // namespace wilkins
