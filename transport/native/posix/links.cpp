// link, symlink and realpath: files of the disk and steps that get a further name, and links that lead to steps.
#include "posix/links.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/patterns.hpp"
#include "board/process.hpp"
#include "events.hpp"
#include "posix/copies.hpp"
#include "posix/files.hpp"
#include "posix/in_set.hpp"

namespace wilkins::posix {
namespace {

constexpr int kMostLinks = 40;  // that lead to each other, as many as the kernel follows

__attribute__((tls_model("initial-exec"))) thread_local bool hdf5_opens = false;

using Path = char[PATH_MAX];

// Where a link of this name leads to: the target is relative to the link's folder. False: that is too long.
bool resolve(const char* link, const char* target, Path& out) {
    const char* const end = target[0] == '/' ? nullptr : strrchr(link, '/');
    const size_t folder = end ? static_cast<size_t>(end - link) + 1 : 0;
    if (folder + strlen(target) >= sizeof(out)) return false;
    memmove(out, link, folder);
    strcpy(out + folder, target);
    return true;
}

// A file, or a step, gets a further name; where neither is a port's, by the program's own `call`.
template <class Call>
int link_names(int from_dir, const char* from, int to_dir, const char* to, int flags, const void* caller, Call call) {
    Match source, target;
    const NameAt whole_from(from_dir, from, caller), whole_to(to_dir, to, caller);
    const bool to_step = matches(whole_to, &target, caller, Purpose::put) && target.outport >= 0;
    const bool from_step = matches(whole_from, &source, caller, Purpose::read);
    if (from_step && to_step) return succeed_or(publish_step(source, target, Intent::create_exclusive));
    if (from_step && !on_disk(source)) {
        const int error = save_step(source, to_dir, to, O_EXCL);
        if (!error) note_made(whole_to);
        return succeed_or(error);
    }
    if (!to_step) {
        const int result = call();
        if (result == 0 && in_run(caller)) note_made(whole_to);
        return result;
    }
    char path[32];
    const bool by_descriptor = !from[0] && (flags & AT_EMPTY_PATH);
    if (by_descriptor) snprintf(path, sizeof(path), "/proc/self/fd/%d", from_dir);
    // What a step's descriptor leads to lies elsewhere.
    if (find(by_descriptor ? from_dir : named_descriptor(from))) return succeed_or(EXDEV);
    return succeed_or(publish_file(from_dir, by_descriptor ? path : from, target, Intent::create_exclusive));
}

// A link leads to a file of the run's, which any of its tasks may go through.
void note_link() {
    const Board& board = process().board;
    for (TaskRecord& task : tasks_of(board)) task.uses_links = 1;
}

// A symbolic link of an out-port's name: what it leads to is published now.
template <class Call>
int publish_link(const char* target, const Match& link, int dirfd, const char* path, const void* caller, Call call) {
    Path file;
    Match source;
    struct stat st;
    if (!resolve(path, target, file)) return succeed_or(ENAMETOOLONG);
    if (matches(NameAt(dirfd, file, caller), &source, caller, Purpose::read) && !on_disk(source))
        return succeed_or(publish_step(source, link, Intent::create_exclusive));
    const bool is_there = libc::fstatat(dirfd, file, &st, 0) == 0;
    if (!is_there) log_event(event::links_to_nothing(link.name, target));
    if (!is_there || !S_ISREG(st.st_mode)) return call();
    if (const int error = publish_file(dirfd, file, link, Intent::create_exclusive)) return succeed_or(error);
    // On disk it is what the program makes it. (The step's own file has a hidden name.)
    return on_disk(link) && libc::unlinkat(dirfd, path, 0) == 0 ? call() : 0;
}

template <class Call>
int symlink_names(const char* target, int dirfd, const char* path, const void* caller, Call call) {
    Match match;
    const NameAt whole(dirfd, path, caller);
    if (matches(whole, &match, caller, Purpose::put) && match.outport >= 0)
        return publish_link(target, match, dirfd, path, caller, call);
    const int result = call();
    if (result != 0 || !in_run(caller)) return result;
    note_made(whole);
    Path file;
    if (resolve(path, target, file) && matches(NameAt(dirfd, file, caller), &match, caller)) note_link();
    return 0;
}

// The program's own name of what is in a folder that is a step. Takes what realpath has said of it, for `out` or in
// memory of its own.
char* name_in_set(char* real, char* out) {
    Path name;
    if (!real || !sets::name_of_real(real, name)) return real;
    if (out) return strcpy(out, name);
    free(real);
    return strdup(name);
}

// The whole name of a step, without links in it, as realpath says it of a file: in `out`, or in memory of its own.
// nullptr: there is none.
char* real_name(const char* path, char* out, const void* caller) {
    Match match;
    struct stat st;
    const int saved = errno;
    if (!matches(path, &match, caller, Purpose::look) &&
        !leads_to_step({AT_FDCWD, path, true, Purpose::look, caller}, &match))
        return nullptr;
    if (stat_for_program(match.name, &st, true) != 0) return nullptr;
    const char* const file = last_components(match.name, 1);
    Path folder = ".", real;
    if (file != match.name) {
        memcpy(folder, match.name, static_cast<size_t>(file - match.name));
        folder[file - match.name] = 0;
    }
    if (!libc::realpath(folder, real) || strlen(real) + strlen(file) + 2 > sizeof(real)) return nullptr;
    if (strcmp(real, "/") != 0) strcat(real, "/");
    strcat(real, file);
    char* const name = out ? out : static_cast<char*>(malloc(sizeof(real)));
    if (!name) return nullptr;
    errno = saved;
    return strcpy(name, real);
}

}  // namespace

bool leads_to_step(const Linked& name, Match* match) {
    if (!name.path || !in_run(name.caller)) return false;
    const int saved = errno;
    Path text, target;
    bool leads = false;
    const char* path = name.path;
    for (int links = 0; links < kMostLinks && !leads; ++links) {
        const ssize_t length = readlinkat(name.dirfd, path, target, sizeof(target) - 1);
        if (length <= 0) break;
        target[length] = 0;
        if (!resolve(path, target, text)) break;
        path = text;
        leads = matches(NameAt(name.dirfd, path, name.caller), match, name.caller, name.purpose);
    }
    errno = saved;
    return leads;
}

bool uses_links(const void* caller) {
    if (!in_run(caller)) return false;
    const Process& p = process();
    return p.board.task(p.context.task).uses_links.load(std::memory_order_relaxed) != 0;
}

// What a link has come to; one of a file on the disk into a step in memory is a copy.
int linked(int result, const InSet& to_set, int from_dir, const char* from, int to_dir, const char* to) {
    return result != 0 && errno == EXDEV && to_set.inside() ? copy_across(from_dir, from, to_dir, to) : result;
}

Hdf5Opens::Hdf5Opens(bool reads) : before_(hdf5_opens) { hdf5_opens = reads; }

Hdf5Opens::~Hdf5Opens() { hdf5_opens = before_; }

bool Hdf5Opens::now() { return hdf5_opens; }

}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(int, link, const char* from, const char* to) {
    const InSet from_set(from, sets::Use::read, WILKINS_CALLER), to_set(to, sets::Use::create, WILKINS_CALLER);
    if (from_set.failed() || to_set.failed()) return -1;
    const libc::KeptErrno kept;
    return kept(link_names(AT_FDCWD, from, AT_FDCWD, to, 0, WILKINS_CALLER,
                           [&] { return linked(libc::link(from, to), to_set, AT_FDCWD, from, AT_FDCWD, to); }));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, linkat, int from_dir, const char* from, int to_dir, const char* to, int flags) {
    const InSet from_set(from_dir, from, sets::Use::read, WILKINS_CALLER),
        to_set(to_dir, to, sets::Use::create, WILKINS_CALLER);
    if (from_set.failed() || to_set.failed()) return -1;
    const libc::KeptErrno kept;
    return kept(link_names(from_dir, from, to_dir, to, flags, WILKINS_CALLER, [&] {
        return linked(libc::linkat(from_dir, from, to_dir, to, flags), to_set, from_dir, from, to_dir, to);
    }));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, symlink, const char* target, const char* path) {
    WILKINS_IN_SET(-1, create, path);
    const libc::KeptErrno kept;
    return kept(symlink_names(target, AT_FDCWD, path, WILKINS_CALLER, [=] { return libc::symlink(target, path); }));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, symlinkat, const char* target, int dirfd, const char* path) {
    WILKINS_IN_SET(-1, create, dirfd, path);
    const libc::KeptErrno kept;
    return kept(
        symlink_names(target, dirfd, path, WILKINS_CALLER, [=] { return libc::symlinkat(target, dirfd, path); }));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(char*, realpath, const char* path, char* out) {
    WILKINS_IN_SET(nullptr, look, path);
    const libc::KeptErrno kept;
    char* const name = libc::realpath(path, out);
    if (in_set.inside()) return name_in_set(name, out);
    return name || !path || errno != ENOENT ? name : kept(real_name(path, out, WILKINS_CALLER));
}
WILKINS_OR(nullptr)

// What programs compiled with _FORTIFY_SOURCE call where the size of `out` is known, which is PATH_MAX at least.
WILKINS_INTERPOSE(char*, __realpath_chk, const char* path, char* out, size_t) {
    WILKINS_IN_SET(nullptr, look, path);
    const libc::KeptErrno kept;
    char* const name = libc::realpath(path, out);
    if (in_set.inside()) return name_in_set(name, out);
    return name || !path || errno != ENOENT ? name : kept(real_name(path, out, WILKINS_CALLER));
}
WILKINS_OR(nullptr)

WILKINS_INTERPOSE(ssize_t, readlink, const char* path, char* out, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    return libc::readlink(path, out, size);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, readlinkat, int dirfd, const char* path, char* out, size_t size) {
    WILKINS_IN_SET(-1, look, dirfd, path);
    return libc::readlinkat(dirfd, path, out, size);
}
WILKINS_OR(-1)
