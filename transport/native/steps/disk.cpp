// Files of steps: hidden while they are written, under the program's name from then on.
#include "steps/disk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "names/own_files.hpp"

namespace wilkins::disk {

namespace {

constexpr mode_t kUsual = 0666;
constexpr uint64_t kPiece = 64u << 20;  // bytes written at once

__attribute__((tls_model("initial-exec"))) thread_local mode_t wanted_mode = kUsual;

Mode mode_of(const Board& board, int slot) { return board.port(board.source(board.slot(slot).source).port).keys.mode; }

struct Path {
    char text[PATH_MAX];
};

// Fills a path; false if it is too long.
__attribute__((format(printf, 2, 3))) bool write_path(Path* path, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(path->text, sizeof(path->text), format, arguments);
    va_end(arguments);
    return n >= 0 && n < static_cast<int>(sizeof(path->text));
}

bool link_path(const Board& board, int slot, char kind, Path* out) {
    return write_path(out, "%s/%c%d", board.folder(), kind, slot);
}

// The program's name of the slot's file, whole, and its hidden one. False if it has none.
bool names_of(const Board& board, int slot, Path* whole, Path* hidden) {
    Path link;
    if (!link_path(board, slot, 'f', &link)) return false;
    const ssize_t n = readlink(link.text, whole->text, sizeof(whole->text) - 1);
    if (n <= 0) return false;
    whole->text[n] = 0;
    const char* run = strrchr(board.folder(), '/');
    const int folder = static_cast<int>(strrchr(whole->text, '/') - whole->text);
    return write_path(hidden, "%.*s/.%s-%d", folder, whole->text, run ? run + 1 : board.folder(), slot);
}

// Lets a link of the run's folder lead elsewhere; there is always one, so that nothing hidden is forgotten.
int turn_link(const Path& link, const Path& target) {
    Path fresh;
    if (!write_path(&fresh, "%s.new", link.text)) return ENAMETOOLONG;
    raw::unlink(fresh.text);
    if (symlink(target.text, fresh.text) != 0) return errno;
    WILKINS_FAULT_POINT("disk.turning");
    return rename(fresh.text, link.text) == 0 ? 0 : errno;
}

// Where the program's file of this name lies, symbolic links followed: those stay what they are.
int locate(const char* name, Path* out) {
    char folder[PATH_MAX];
    if (name[0] == '/') folder[0] = 0;
    else if (!getcwd(folder, sizeof(folder))) return errno;
    if (!write_path(out, "%s%s%s", folder, folder[0] ? "/" : "", name)) return ENAMETOOLONG;
    struct stat st;
    if (lstat(out->text, &st) != 0 || !S_ISLNK(st.st_mode)) return 0;
    Path target;
    if (realpath(out->text, target.text)) *out = target;
    return 0;
}

// What keeps a program from writing over what is there.
int obstacle(const char* path) {
    struct stat st;
    if (stat(path, &st) != 0) return errno == ENOENT ? 0 : errno;
    if (S_ISDIR(st.st_mode)) return EISDIR;
    if (!S_ISREG(st.st_mode)) return EINVAL;
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// Steps count from zero, private copies from half of the range. Files of neighbouring numbers must stay apart.
uint64_t identity(uint64_t device, uint64_t inode) { return (3ull << 62) | (device * 0x9e3779b97f4a7c15ull + inode); }

int write_whole(int fd, const unsigned char* bytes, uint64_t size) {
    for (uint64_t done = 0; done < size;) {
        const ssize_t n = raw::write(fd, bytes + done, std::min(size - done, kPiece));
        if (n > 0) done += static_cast<uint64_t>(n);
        else if (n == 0) return EIO;
        else if (errno != EINTR) return errno;
    }
    return 0;
}

// A file that is written over keeps its owner and its mode; a new one has those that its program has given to `hidden`.
int keep_rights(const char* whole, const char* hidden) {
    struct stat st;
    if (stat(whole, &st) != 0) return 0;
    if (chown(hidden, st.st_uid, st.st_gid) != 0 && errno != EPERM) return errno;
    return chmod(hidden, st.st_mode & 07777) == 0 ? 0 : errno;
}

// Says what the hidden file is going to be.
int tell(const Board& board, int slot, const char* hidden, const char* whole, Announce announce) {
    struct stat st;
    if (stat(hidden, &st) != 0) return errno;
    announce(board, slot, hidden, whole, st.st_ino);
    return 0;
}

// Its program may have taken the right to write it from itself. Returns 0 or an errno.
int store_in(const char* path, const unsigned char* bytes, uint64_t size) {
    struct stat made;
    const bool locked = stat(path, &made) == 0 && (made.st_mode & 0200) == 0 && chmod(path, made.st_mode | 0200) == 0;
    const int fd = raw::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kUsual);
    if (fd < 0) return errno;
    WILKINS_FAULT_POINT("disk.image-opened");
    int error = write_whole(fd, bytes, size);
    WILKINS_FAULT_POINT("disk.image-written");
    if (!error && locked && fchmod(fd, made.st_mode & 07777) != 0) error = errno;
    // Some file systems tell only now that they had no room.
    if (raw::close(fd) != 0 && !error) error = errno;
    return error;
}

int store_image(const Board& board, int slot, const char* hidden, const char* whole, const unsigned char* image,
                uint64_t size, Announce announce) {
    int error = store_in(hidden, image, size);
    if (!error) error = keep_rights(whole, hidden);
    if (!error) error = tell(board, slot, hidden, whole, announce);
    if (!error && rename(hidden, whole) != 0) error = errno;
    WILKINS_FAULT_POINT("disk.image-named");
    if (error) raw::unlink(hidden);
    return error;
}

int link_file(const Board& board, int slot, const char* hidden, const char* whole, Announce announce) {
    Path fresh;
    if (!write_path(&fresh, "%s.new", hidden)) return ENAMETOOLONG;
    int error = keep_rights(whole, hidden);
    if (!error) error = tell(board, slot, hidden, whole, announce);
    raw::unlink(fresh.text);
    if (!error && link(hidden, fresh.text) != 0) error = errno;
    WILKINS_FAULT_POINT("disk.file-linked");
    if (!error && rename(fresh.text, whole) != 0) error = errno;
    WILKINS_FAULT_POINT("disk.file-named");
    raw::unlink(fresh.text);  // if both were the same file already, rename has left it
    return error;
}

}  // namespace

bool has_files(const Board& board, int port) { return port >= 0 && board.port(port).keys.mode != Mode::memory; }

bool is_file(const Board& board, int slot) { return mode_of(board, slot) == Mode::file; }

int begin(const Board& board, int slot) {
    const Mode mode = mode_of(board, slot);
    if (mode == Mode::memory) return 0;
    forget(board, slot);
    if (mode == Mode::file) {  // a new file has no memory yet
        board.slot(slot).reserved.store(0);
        board.slot(slot).accounted = 0;
    }
    Path whole, hidden, link;
    if (int error = locate(board.slot(slot).name, &whole)) return error;
    if (int error = obstacle(whole.text)) return error;
    if (!link_path(board, slot, 'f', &link)) return ENAMETOOLONG;
    if (symlink(whole.text, link.text) != 0) return errno;
    WILKINS_FAULT_POINT("disk.noted");
    int error = names_of(board, slot, &whole, &hidden) ? 0 : ENAMETOOLONG;
    // The run's folder names the file before it is there, so that nothing can be left behind.
    if (!error && mode == Mode::file && (!link_path(board, slot, 'a', &link) || symlink(hidden.text, link.text) != 0))
        error = errno;
    WILKINS_FAULT_POINT("disk.hidden-noted");
    if (!error) {
        const mode_t rights = mode == Mode::file ? wanted_mode | 0600 : wanted_mode;
        const int fd = raw::open(hidden.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, rights);
        if (fd < 0) error = errno;
        else raw::close(fd);
        WILKINS_FAULT_POINT("disk.hidden-made");
    }
    if (error) forget(board, slot);
    return error;
}

void keep(const Board& board, int port, int rank, uint64_t sequence, const char* hidden, const char* path) {
    const uint64_t count = board.port(port).keys.keep;
    const char* trace = board.head().trace_file;
    const char* end = strrchr(trace, '/');
    if (!count || !end) return;
    const int records = static_cast<int>(end - trace);
    const char* name = strrchr(path, '/') + 1;
    // A folder for each, so that the file is called as its program has called it.
    Path folder, file;
    const auto place = [&](uint64_t number) {
        return write_path(&folder, "%.*s/kept/%d.%d.%llu", records, trace, port, rank,
                          static_cast<unsigned long long>(number));
    };
    if (place(sequence) && write_path(&file, "%s/%s", folder.text, name)) {
        mkdir(folder.text, 0700);
        raw::unlink(file.text);  // of a process that died just here
        if (link(hidden, file.text) != 0) rmdir(folder.text);
    }
    WILKINS_FAULT_POINT("disk.kept");
    if (sequence < count || !place(sequence - count)) return;
    DIR* entries = opendir(folder.text);
    if (!entries) return;
    while (const struct dirent* entry = readdir(entries))
        if (entry->d_name[0] != '.' && write_path(&file, "%s/%s", folder.text, entry->d_name)) raw::unlink(file.text);
    closedir(entries);
    rmdir(folder.text);
}

bool is_directory(const char* name) {
    const int saved = errno;
    struct stat st;
    const bool found = raw::stat(name, &st) == 0 && S_ISDIR(st.st_mode);
    errno = saved;
    return found;
}

bool exists(const char* name) {
    struct stat st;
    return lstat(name, &st) == 0;
}

int settle(const Board& board, int slot, const unsigned char* image, uint64_t size, Announce announce) {
    const Mode mode = mode_of(board, slot);
    if (mode == Mode::memory || board.slot(slot).removed)
        return 0;  // (Its hidden name goes with the slot's next file, or the run.)
    Path whole, hidden;
    if (!names_of(board, slot, &whole, &hidden)) return ENOENT;
    return mode == Mode::both ? store_image(board, slot, hidden.text, whole.text, image, size, announce)
                              : link_file(board, slot, hidden.text, whole.text, announce);
}

int make_own(const Board& board, const char* name, int (*fill)(void* what, int fd), void* what, int* fd) {
    Path whole, hidden, link;
    if (const int error = locate(name, &whole)) return error;
    if (const int error = obstacle(whole.text)) return error;
    // A number that no slot has, and no other process.
    const int number = board.head().slots + static_cast<int>(board.self());
    if (!link_path(board, number, 'f', &link)) return ENAMETOOLONG;
    raw::unlink(link.text);
    if (symlink(whole.text, link.text) != 0) return errno;
    if (!names_of(board, number, &whole, &hidden)) return ENAMETOOLONG;
    WILKINS_FAULT_POINT("own.noted");
    raw::unlink(hidden.text);
    *fd = raw::open(hidden.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kUsual);
    int error = *fd < 0 ? errno : fill(what, *fd);
    WILKINS_FAULT_POINT("own.filled");
    if (!error) error = keep_rights(whole.text, hidden.text);
    if (!error && rename(hidden.text, whole.text) != 0) error = errno;
    WILKINS_FAULT_POINT("own.named");
    if (error && *fd >= 0) {
        raw::unlink(hidden.text);
        raw::close(*fd);
        *fd = -1;
    }
    raw::unlink(link.text);
    return error;
}

namespace {

// The slot's file is that of this whole name from now on; its hidden one was `old_hidden`.
int turn_to(const Board& board, int slot, const Path& named, const Path& old_hidden) {
    Path whole, hidden, link;
    if (!link_path(board, slot, 'f', &link)) return ENAMETOOLONG;
    if (const int error = turn_link(link, named)) return error;
    if (!names_of(board, slot, &whole, &hidden)) return errno;
    if (strcmp(hidden.text, old_hidden.text) == 0) return 0;
    const bool is_file = mode_of(board, slot) == Mode::file;
    if (rename(old_hidden.text, hidden.text) != 0)
        return errno == ENOENT && !is_file ? 0 : errno;  // (It may have its name already.)
    WILKINS_FAULT_POINT("disk.moved-hidden");
    if (!is_file) return 0;
    return link_path(board, slot, 'a', &link) ? turn_link(link, hidden) : ENAMETOOLONG;
}

}  // namespace

int rename_file(const Board& board, int slot, const char* from, const char* to) {
    if (mode_of(board, slot) == Mode::memory) return 0;
    Path whole, old_hidden;
    if (!names_of(board, slot, &whole, &old_hidden)) return ENOENT;
    if (int error = locate(to, &whole)) return error;
    if (rename(from, to) != 0) return errno;
    WILKINS_FAULT_POINT("disk.moved");
    return turn_to(board, slot, whole, old_hidden);
}

int follow_name(const Board& board, int slot, const char* name) {
    if (mode_of(board, slot) == Mode::memory) return 0;
    Path whole, now, hidden;
    if (!names_of(board, slot, &whole, &hidden)) return 0;
    if (const int error = locate(name, &now)) return error;
    return strcmp(now.text, whole.text) == 0 ? 0 : turn_to(board, slot, now, hidden);
}

void move_folder(const Board& board, int slot, const char* from, const char* to) {
    Path whole, moved, hidden, link;
    if (mode_of(board, slot) == Mode::memory || !names_of(board, slot, &whole, &hidden) ||
        !link_path(board, slot, 'f', &link))
        return;
    const size_t length = strlen(from);
    if (strncmp(whole.text, from, length) != 0 || whole.text[length] != '/') return;
    if (!write_path(&moved, "%s%s", to, whole.text + length) || turn_link(link, moved) != 0) return;
    if (is_file(board, slot) && names_of(board, slot, &whole, &hidden) && link_path(board, slot, 'a', &link))
        turn_link(link, hidden);
}

bool file_name(const Board& board, int slot, char* out, size_t room) {
    Path whole, hidden;
    const bool there = mode_of(board, slot) != Mode::memory && names_of(board, slot, &whole, &hidden);
    return there && snprintf(out, room, "%s", whole.text) < static_cast<int>(room);
}

bool is_named(const Board& board, int slot, const char* name) {
    Path link;
    struct stat arena, named;
    return is_file(board, slot) && link_path(board, slot, 'a', &link) && stat(link.text, &arena) == 0 &&
           stat(name, &named) == 0 && arena.st_dev == named.st_dev && arena.st_ino == named.st_ino;
}

bool hidden_name(const Board& board, int slot, char* out, size_t room) {
    Path whole, hidden;
    if (mode_of(board, slot) == Mode::memory || !names_of(board, slot, &whole, &hidden) || strlen(hidden.text) >= room)
        return false;
    strcpy(out, hidden.text);
    return true;
}

void forget(const Board& board, int slot) {
    const Mode mode = mode_of(board, slot);
    if (mode == Mode::memory) return;
    Path whole, hidden, link;
    if (names_of(board, slot, &whole, &hidden)) {
        raw::unlink(hidden.text);
        if (write_path(&whole, "%s.new", hidden.text)) raw::unlink(whole.text);
        WILKINS_FAULT_POINT("disk.forgetting");
    }
    if (mode == Mode::file && link_path(board, slot, 'a', &link)) {
        // Where a rename was cut short, the two links may lead to files in different folders.
        const ssize_t n = readlink(link.text, hidden.text, sizeof(hidden.text) - 1);
        if (n > 0) {
            hidden.text[n] = 0;
            raw::unlink(hidden.text);
        }
        raw::unlink(link.text);
    }
    if (link_path(board, slot, 'f', &link)) raw::unlink(link.text);
}

Permission::Permission(mode_t mode) : before_(wanted_mode) { wanted_mode = mode; }

Permission::~Permission() { wanted_mode = before_; }

int map_file(const char* name, Image* out) {
    const int fd = raw::open(name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return errno;
    struct stat st;
    int error = raw::fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : EINVAL;
    const uint64_t size = error ? 0 : static_cast<uint64_t>(st.st_size);
    const uint64_t length = std::max<uint64_t>(size, 1);
    void* bytes = error ? MAP_FAILED : mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (!error && bytes == MAP_FAILED) error = errno;
    if (error) {
        raw::close(fd);
        return error;
    }
    *out = {fd, static_cast<unsigned char*>(bytes), size, length, disk::identity(st.st_dev, st.st_ino)};
    return 0;
}

bool look(const char* name, uint64_t* size, uint64_t* identity, int64_t* modified_ns) {
    struct stat st;
    if (stat(name, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    *size = static_cast<uint64_t>(st.st_size);
    *identity = disk::identity(st.st_dev, st.st_ino);
    *modified_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
    return true;
}

uint64_t identity_of(const OnDisk& file) { return identity(file.device, file.inode); }

bool look(const char* name, OnDisk* out) {
    struct stat st;
    if (stat(name, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    *out = {st.st_dev, st.st_ino, static_cast<uint64_t>(st.st_size),
            st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec};
    return true;
}

}  // namespace wilkins::disk
