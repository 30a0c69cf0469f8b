// What C and C++ programs of pairs share. A file of cases is a list of
//     CASE(NAME, "FEATURE; FEATURE") { writes the file `file` }           with the flags PAIR, AGAIN and REFUSED as in cases.py
//     LOOK(NAME) { reads it, in the consumer }                           optional: by default it is opened and closed
// and says what it sees with say() and TRY(), which tells a failing call's error classes and messages, too.
#pragma once

#include <hdf5.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*Act)(const char* file);

enum { PAIR = 1, AGAIN = 2, REFUSED = 4 };

// The cases of the program, and where what they say goes: for the mains that run them.
#define MOST 128
typedef struct {
    const char* name;
    Act produce, consume;
    int flags;
} Case;
extern Case cases[MOST];
extern int case_count;
extern FILE* out;

// Writes the first two files of every port of the cases that are chosen: only a port's second file tells that its names
// are not one stream. Each rank that writes files has a stream of its own; `of` is its number.
void begin_ports(int argc, char** argv, int of);

// A case's file; valid until the next call.
const char* file_of(int i);

// Is a case among those named on the command line, if any are?
int is_chosen(int i, int argc, char** argv);

// Closes what a case left open: it would keep its file open to the end.
void close_all(void);

void add_case(const char* name, Act produce, int flags);
void add_look(const char* name, Act consume);

// One line of the case's section. printf-like.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Says what a call returned: numbers as they are, ids as "id", and for a failure the error stack. Returns the value.
long long tried(const char* call, long long result);

// The case's second file.
const char* target(const char* file);

// Says a dataset's or an attribute's values as they are read with a memory type, as hexadecimal bytes (or their sum).
void say_values(hid_t dataset, hid_t type);

// A dataset creation list that keeps no times, so that files can be compared byte for byte.
hid_t untimed(void);

// A simple space of one or two dimensions (`columns` 0: one).
hid_t space(hsize_t rows, hsize_t columns);

#ifdef __cplusplus
}
#endif

#define TRY(call) tried(#call, (long long)(call))
#define CASE(name, features, ...)                                                    \
    static void write_##name(const char* file);                                      \
    __attribute__((constructor)) static void add_##name(void) {                      \
        add_case(#name, write_##name, 0 __VA_OPT__(|) __VA_ARGS__);                  \
    }                                                                                \
    static void write_##name(const char* file)
#define LOOK(name)                                                                   \
    static void look_##name(const char* file);                                       \
    __attribute__((constructor)) static void add_look_##name(void) {                 \
        add_look(#name, look_##name);                                                \
    }                                                                                \
    static void look_##name(const char* file)
