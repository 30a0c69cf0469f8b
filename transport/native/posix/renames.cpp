// rename: of files of the disk, of steps, and of folders with files in them.
#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "base/patterns.hpp"
#include "board/process.hpp"
#include "events.hpp"
#include "posix/copies.hpp"
#include "posix/files.hpp"
#include "posix/in_set.hpp"
#include "posix/links.hpp"
#include "steps/disk.hpp"

namespace wilkins::posix {
namespace {

// A file below a folder, and when it was written last.
struct Below {
    int64_t written_ns;
    std::string rest;  // of its name
    bool operator<(const Below& other) const {
        return std::tie(written_ns, rest) < std::tie(other.written_ns, other.rest);
    }
};

void gather(const std::string& folder, const std::string& rest, std::vector<Below>* files) {
    DIR* const dir = libc::opendir((folder + rest).c_str());
    if (!dir) return;
    while (const struct dirent* entry = libc::readdir(dir)) {
        const std::string name = entry->d_name;
        struct stat st;
        if (name == "." || name == ".." || name.rfind(disk::kHidden, 0) == 0 ||
            libc::lstat((folder + rest + "/" + name).c_str(), &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) gather(folder, rest + "/" + name, files);
        else if (S_ISREG(st.st_mode))
            files->push_back({st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec, rest + "/" + name});
    }
    libc::closedir(dir);
}

// Files of the disk that are called like an out-port's now become steps, in the order in which they were written. Those
// that were steps are no more, under their old names. Returns 0 or an errno.
int publish_below(const char* from, const char* to, const void* caller) {
    std::vector<Below> files;
    gather(to, "", &files);
    std::sort(files.begin(), files.end());
    for (const Below& file : files) {
        const std::string old = from + file.rest, name = to + file.rest;
        Match source, target;
        if (!matches(name.c_str(), &target, caller, Purpose::put) || target.outport < 0) continue;
        if (matches(old.c_str(), &source, caller) && source.outport >= 0) withdraw_step(source);
        if (const int error = publish_file(AT_FDCWD, name.c_str(), target, Intent::create)) return error;
        if (!on_disk(target)) libc::unlinkat(AT_FDCWD, name.c_str(), 0);
    }
    return 0;
}

// A step takes another port's name. Returns 0 or an errno, as does the next.
int rename_to_step(const Match& source, const Match& target) {
    if (source.outport >= 0) {
        const int error = rename_step(source, target);
        if (!error) follow_name(source, target);
        return error;
    }
    const int error = publish_step(source, target, Intent::create);
    return error ? error : remove_step(source);
}

int rename_to_file(const Match& source, int to_dir, const char* to) {
    struct stat st;
    if (look_at(source, &st) != 0) return errno;
    const int error = save_step(source, to_dir, to, O_TRUNC);
    return error ? error : remove_step(source);
}

// The task's files below a folder go with it. Returns 0 or an errno.
int rename_below(const char* from, const char* to, const void* caller) {
    for (const std::string& old : move_folder(from, to)) {
        const std::string name = to + old.substr(strlen(from));
        Match source, target;
        if (!matches(old.c_str(), &source, caller) || source.outport < 0) continue;
        const bool to_step = matches(name.c_str(), &target, caller, Purpose::put) && target.outport >= 0;
        if (const int error = to_step ? rename_step(source, target) : rename_to_file(source, AT_FDCWD, name.c_str()))
            return error;
    }
    return 0;
}

// The program has given a folder, perhaps, another name. Returns 0 or an errno.
int rename_in_folder(const char* from, const char* to, const void* caller) {
    char old[kNameMax], name[kNameMax];
    struct stat st;
    if (!normalise(from, old, sizeof(old)) || !normalise(to, name, sizeof(name))) return 0;
    if (libc::lstat(name, &st) != 0 || !S_ISDIR(st.st_mode)) return 0;
    const int error = rename_below(old, name, caller);
    return error ? error : publish_below(old, name, caller);
}

// An ordinary file takes a port's name, or a link that leads to a step.
int rename_to_port(int from_dir, const char* from, const char* whole_from, const Match& target, const void* caller) {
    Match source;
    const bool leads = leads_to_step({from_dir, from, true, Purpose::read, caller}, &source) && !on_disk(source);
    const int error =
        leads ? publish_step(source, target, Intent::create) : publish_file(from_dir, from, target, Intent::create);
    if (error) return succeed_or(error);
    if (libc::unlinkat(from_dir, from, 0) != 0) return -1;
    forget_made(whole_from);
    return 0;
}

// A file of a port that is being written is published under a name of the port, or not at all.
bool is_unfinished(const Match& match) {
    if (match.outport < 0 || find_unfinished(match).empty()) return false;
    log_event(event::renames_open(match.name));
    return true;
}

// rename where neither name is a port's.
template <class Call>
int rename_other(const char* from, const char* to, const void* caller, Call call) {
    const int result = call();
    if (result != 0 || !in_run(caller)) return result;
    forget_made(from);
    note_made(to);
    if (!could_hold_steps(from) && !could_hold_steps(to)) return 0;
    const int saved = errno;
    const int error = rename_in_folder(from, to, caller);
    errno = saved;
    return succeed_or(error);
}

// rename; where neither name is a port's, by the program's own `call`.
template <class Call>
int rename_names(int from_dir, const char* from, int to_dir, const char* to, unsigned flags, const void* caller,
                 Call call) {
    Match source, target;
    const NameAt whole_from(from_dir, from, caller, true), whole_to(to_dir, to, caller, true);
    const bool from_step = matches(whole_from, &source, caller, Purpose::look);
    const bool to_step = matches(whole_to, &target, caller, Purpose::put) && target.outport >= 0;
    if (!from_step && !to_step) return rename_other(whole_from, whole_to, caller, call);
    struct stat st;
    const bool exclusive = (flags & 1u) != 0;  // RENAME_NOREPLACE
    if (flags & ~1u) return succeed_or(EINVAL);
    if (exclusive && to_step && stat_match(target, &st) == 0) return succeed_or(EEXIST);
    if (to_step) {
        const std::vector<uint64_t> replaced = find_unfinished(target);
        const bool itself = from_step && strcmp(source.name, target.name) == 0;
        const int result = from_step ? succeed_or(rename_to_step(source, target))
                                     : rename_to_port(from_dir, from, whole_from, target, caller);
        if (result == 0 && !itself) lose_name(target, replaced);
        return result;
    }
    if (is_unfinished(source)) return succeed_or(EBUSY);
    if (on_disk(source)) {
        const int result = libc::renameat(from_dir, from, to_dir, to);
        if (result == 0) remove_step(source, false);
        return result;
    }
    if (const int error = rename_to_file(source, to_dir, to)) return succeed_or(error);
    if (is_file(source) && may_remove_file(source)) libc::unlinkat(from_dir, from, 0);
    note_made(whole_to);
    return 0;
}

// The same, of names that may lead into folders that are steps; `call` is given the real ones.
template <class Call>
int rename_any(int from_dir, const char* from, int to_dir, const char* to, unsigned flags, const void* caller,
               Call call) {
    const InSet from_set(from_dir, from, sets::Use::remove, caller), to_set(to_dir, to, sets::Use::create, caller);
    if (from_set.failed() || to_set.failed()) return -1;
    int result;
    const auto move = [&](const char* real_from, const char* real_to) {
        const int moved = call(real_from, real_to);
        if (moved == 0 || errno != EXDEV || (!from_set.inside() && !to_set.inside())) return moved;
        return copy_across(from_dir, real_from, to_dir, real_to) == 0 ? libc::unlinkat(from_dir, real_from, 0) : -1;
    };
    const bool outside = !from_set.inside() && !to_set.inside();
    if (outside &&
        move_into_set(NameAt(from_dir, from, caller, true), NameAt(to_dir, to, caller, true), caller, &result))
        return result;
    return rename_names(from_dir, from, to_dir, to, flags, caller, [&] { return move(from, to); });
}

}  // namespace

int rename_at(int from_dir, const char* from, int to_dir, const char* to, unsigned flags, const void* caller) {
    return rename_any(from_dir, from, to_dir, to, flags, caller, [=](const char* real_from, const char* real_to) {
        return libc::renameat2(from_dir, real_from, to_dir, real_to, flags);
    });
}

}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(int, rename, const char* from, const char* to) {
    const libc::KeptErrno kept;
    return kept(
        rename_any(AT_FDCWD, from, AT_FDCWD, to, 0, WILKINS_CALLER,
                   [](const char* real_from, const char* real_to) { return libc::rename(real_from, real_to); }));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, renameat, int from_dir, const char* from, int to_dir, const char* to) {
    const libc::KeptErrno kept;
    return kept(
        rename_any(from_dir, from, to_dir, to, 0, WILKINS_CALLER, [=](const char* real_from, const char* real_to) {
            return libc::renameat(from_dir, real_from, to_dir, real_to);
        }));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, renameat2, int from_dir, const char* from, int to_dir, const char* to, unsigned flags) {
    const libc::KeptErrno kept;
    return kept(rename_at(from_dir, from, to_dir, to, flags, WILKINS_CALLER));
}
WILKINS_OR(-1)
