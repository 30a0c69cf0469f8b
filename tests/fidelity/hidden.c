// The streams of the C library for an HDF5 that is linked into a shared object: Debian's static one is made for executables, which
// may refer to them directly, and is told by the linker's names to take these.
#include <stdio.h>

FILE *inner_stdin, *inner_stdout, *inner_stderr;

__attribute__((constructor)) static void set(void) {
    inner_stdin = stdin;
    inner_stdout = stdout;
    inner_stderr = stderr;
}
