// Writes lines of the record by system calls of its own: a program may close all its descriptors, or fork at any time.
#include "recorder/log.hpp"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/raw.hpp"

namespace wilkins::recorder {

namespace {

// The folder that names begin at, with a slash at its end; empty if nobody knows.
void name_folder(int folder, char (&out)[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof(link), folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    const long length = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 2);
    strcpy(out + (length > 0 ? length : 0), length > 0 ? "/" : "");
}

// Makes one line of a text that may hold the signs which part lines and columns.
void clean(char* text) {
    for (; *text; ++text)
        if (static_cast<unsigned char>(*text) < ' ') *text = '?';
}

}  // namespace

void log(const char* event, int fd, long long bytes, const char* name, int folder, const char* more) {
    static const char* const record = getenv("WILKINS_RECORD");
    if (!record || !name || !*name) return;
    const int before = errno;
    char start[PATH_MAX] = "", whole[2 * PATH_MAX], last[PATH_MAX], line[4 * PATH_MAX];
    if (*name != '/') name_folder(folder, start);
    snprintf(whole, sizeof(whole), "%s%s", start, name);
    snprintf(last, sizeof(last), "%s", more);
    clean(whole);
    clean(last);
    const int length = snprintf(line, sizeof(line), "%d\t%s\t%d\t%lld\t%s\t%s\n", static_cast<int>(getpid()), event, fd,
                                bytes, whole, last);
    const int file = raw::open(record, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    if (file >= 0) {
        [[maybe_unused]] const ssize_t written = raw::write(file, line, length);
        raw::close(file);
    }
    errno = before;
}

}  // namespace wilkins::recorder
