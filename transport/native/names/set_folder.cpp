#include "names/set_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/raw.hpp"
#include "names/set_names.hpp"

namespace wilkins::sets {

namespace {

constexpr uint32_t kName = 0;  // the note of the step's name; of no process

int make_folder(const char* name, mode_t mode) { return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, name, mode)); }

void notes_of(const Board& board, int slot, uint64_t stamp, RealPath& out) {
    snprintf(out, sizeof(out), "%s/s%d.%llu.by", board.folder(), slot, static_cast<unsigned long long>(stamp));
}

void note_of(const Board& board, int slot, uint64_t stamp, uint32_t process, RealPath& out) {
    snprintf(out, sizeof(out), "%s/s%d.%llu.by/%u", board.folder(), slot, static_cast<unsigned long long>(stamp),
             process);
}

// What follows the folder in a path of something in it; nullptr: it is elsewhere.
const char* state_of(const char* path, const char* folder) {
    const size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0) return nullptr;
    return path[length] == '/' ? path + length + 1 : path[length] == 0 || path[length] == ' ' ? path + length : nullptr;
}

using Belongs = std::function<bool(const char*)>;  // to the step, by what follows the folder

bool leads_into(const char* link, const char* folder, const Belongs& belongs) {
    RealPath target;
    const ssize_t length = raw::read_link(link, target, sizeof(target) - 1);
    if (length <= 0) return false;
    target[length] = 0;
    const char* const rest = state_of(target, folder);
    return rest && belongs(rest);
}

bool is_mapped(const char* folder, const Belongs& belongs) {
    const int fd = raw::open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    std::string text;
    char buffer[16384];
    for (ssize_t got; (got = raw::read(fd, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(got));
    raw::close(fd);
    const std::string within = std::string(folder) + "/";
    for (size_t at = text.find(within); at != std::string::npos; at = text.find(within, at + 1)) {
        const size_t begin = at + within.size();
        if (belongs(text.substr(begin, text.find('\n', at) - begin).c_str())) return true;
    }
    return false;
}

bool is_open_within(const char* folder, const Belongs& belongs) {
    bool open = leads_into("/proc/self/cwd", folder, belongs);
    if (!open)
        each_entry("/proc/self/fd", [&](const char* name) {
            open = open || leads_into((std::string("/proc/self/fd/") + name).c_str(), folder, belongs);
        });
    return open || is_mapped(folder, belongs);
}

// (What a link leads to is not ours.)
void remove_below(const std::string& folder) {
    if (raw::unlink(folder.c_str()) == 0) return;
    each_entry(folder.c_str(), [&](const char* name) { remove_below(folder + "/" + name); });
    syscall(SYS_unlinkat, AT_FDCWD, folder.c_str(), AT_REMOVEDIR);
}

// Where the contents lie, or the link that leads to them.
void place_of_step(const Board& board, int slot, uint64_t stamp, RealPath& out) {
    snprintf(out, sizeof(out), "%s/s%d.%llu", board.folder(), slot, static_cast<unsigned long long>(stamp));
}

}  // namespace

// (By the kernel's own call: the C library's may be our wrapper.)
bool each_entry(const char* folder, const std::function<void(const char*)>& visit) {
    struct Entry {
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[1];
    };
    const int fd = raw::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    alignas(Entry) char buffer[8192];
    for (long got; (got = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0;)
        for (long at = 0; at < got;) {
            const auto* entry = reinterpret_cast<const Entry*>(buffer + at);
            const char* const name = buffer + at + offsetof(Entry, name);
            if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) visit(name);
            at += entry->length;
        }
    raw::close(fd);
    return true;
}

void contents_of_step(const Board& board, int slot, uint64_t stamp, RealPath& out) {
    RealPath place;
    place_of_step(board, slot, stamp, place);
    const ssize_t length = raw::read_link(place, out, sizeof(out) - 1);
    if (length > 0) out[length] = 0;
    else strcpy(out, place);
}

bool make_contents(const Board& board, int slot, uint64_t stamp) {
    RealPath place;
    place_of_step(board, slot, stamp, place);
    return make_folder(place, 0777) == 0;
}

bool link_contents(const Board& board, int slot, uint64_t stamp, const char* on_disk) {
    RealPath place;
    place_of_step(board, slot, stamp, place);
    return syscall(SYS_symlinkat, on_disk, AT_FDCWD, place) == 0;
}

bool step_of_folder(const Board& board, const char* path, int* slot, uint64_t* stamp, const char** rest) {
    const size_t length = strlen(board.folder());
    if (strncmp(path, board.folder(), length) != 0 || strncmp(path + length, "/s", 2) != 0) return false;
    unsigned long long number = 0;
    int end = 0;
    if (sscanf(path + length, "/s%d.%llu%n", slot, &number, &end) != 2) return false;
    const char* const after = path + length + end;
    if (*after != 0 && *after != '/') return false;
    *stamp = number;
    *rest = *after ? after + 1 : after;
    return *slot >= 0 && *slot < board.head().slots;
}

bool make_notes(const Board& board, int slot, uint64_t stamp, const char* name) {
    RealPath notes;
    notes_of(board, slot, stamp, notes);
    if (make_folder(notes, 0700) != 0) return false;
    note_of(board, slot, stamp, kName, notes);
    return syscall(SYS_symlinkat, name, AT_FDCWD, notes) == 0;
}

bool read_name(const Board& board, int slot, uint64_t stamp, RealPath& out) {
    RealPath note;
    note_of(board, slot, stamp, kName, note);
    const ssize_t length = raw::read_link(note, out, sizeof(out) - 1);
    if (length > 0) out[length] = 0;
    return length > 0;
}

bool note_writer(const Board& board, int slot, uint64_t stamp, uint32_t process) {
    RealPath note;
    note_of(board, slot, stamp, process, note);
    const int fd = raw::open(note, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) raw::close(fd);
    return fd >= 0;
}

void forget_writer(const Board& board, int slot, uint64_t stamp, uint32_t process) {
    RealPath note;
    note_of(board, slot, stamp, process, note);
    raw::unlink(note);
}

bool has_writers(const Board& board, int slot, uint64_t stamp) {
    RealPath notes;
    notes_of(board, slot, stamp, notes);
    bool any = false;
    each_entry(notes, [&](const char* name) {
        const auto process = static_cast<uint32_t>(strtoul(name, nullptr, 10));
        any = any || (process != kName && !board.is_over(process));
    });
    return any;
}

bool is_open_here(const Board& board, int slot, uint64_t stamp) {
    RealPath folder;
    contents_of_step(board, slot, stamp, folder);
    const PortRecord& port = board.port(board.source(board.slot(slot).source).port);
    if (!is_list(port) || !port.keys.on_disk) return is_open_within(folder, [](const char*) { return true; });
    // (There, other files lie beside them.)
    return is_open_within(folder, [&](const char* rest) {
        char step[kNameMax];
        return step_of_file(port, rest, step) && same_ends(step, board.slot(slot).name, 1);
    });
}

uint64_t bytes_below(const char* folder) {
    uint64_t bytes = 0;
    each_entry(folder, [&](const char* name) {
        const std::string path = std::string(folder) + "/" + name;
        struct stat st;
        if (syscall(SYS_newfstatat, AT_FDCWD, path.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return;
        bytes += S_ISDIR(st.st_mode) ? bytes_below(path.c_str()) : static_cast<uint64_t>(st.st_size);
    });
    return bytes;
}

void remove(const Board& board, int slot, uint64_t stamp) {
    const int saved = errno;
    RealPath folder;
    place_of_step(board, slot, stamp, folder);
    remove_below(folder);
    notes_of(board, slot, stamp, folder);
    remove_below(folder);
    errno = saved;
}

}  // namespace wilkins::sets
