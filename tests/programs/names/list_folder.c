/* Lists a folder by one of the C library's ways: list_folder WAY FOLDER PATTERN prints, sorted, "name size inode" of what matches. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char* folder;
static const char* pattern;
static char* found[1024];
static int count;

/* The entry of the folder; `inode`: as the listing has it, 0 if it has none. */
static void add(const char* name, unsigned long inode) {
    struct stat st;
    char path[4096], line[4096 + 64];
    if (fnmatch(pattern, name, 0) != 0) return;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (lstat(path, &st) != 0 || (inode && inode != st.st_ino)) {
        printf("%s: stat says otherwise\n", name);
        exit(1);
    }
    snprintf(line, sizeof(line), "%s %ld %lu", name, (long)st.st_size, (unsigned long)st.st_ino);
    found[count++] = strdup(line);
}

static void add_all(DIR* directory) {
    const struct dirent* entry;
    if (!directory) perror(folder), exit(1);
    while ((entry = readdir(directory))) add(entry->d_name, entry->d_ino);
    closedir(directory);
}

static int any(const struct dirent* entry) { return entry->d_name[0] != '.'; }

static void add_list(struct dirent** list, int entries) {
    if (entries < 0) perror(folder), exit(1);
    for (int i = 0; i < entries; ++i) {
        add(list[i]->d_name, list[i]->d_ino);
        free(list[i]);
    }
    free(list);
}

static const char* base(const char* path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

static int walked(const char* path, const struct stat* st, int kind, struct FTW* at) {
    if (kind == FTW_F && at->level == 1 && strcmp(path + at->base, base(path)) == 0) add(base(path), st->st_ino);
    return 0;
}

static int walked_simply(const char* path, const struct stat* st, int kind) {
    if (kind == FTW_F) add(base(path), st->st_ino);
    return 0;
}

static void add_by_glob(void) {
    char text[4096];
    glob_t result;
    snprintf(text, sizeof(text), "%s/%s", folder, pattern);
    if (glob(text, 0, NULL, &result) != 0) return;
    for (size_t i = 0; i < result.gl_pathc; ++i) add(base(result.gl_pathv[i]), 0);
    globfree(&result);
}

static int by_text(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

int main(int argc, char** argv) {
    const char* way = argv[1];
    struct dirent** list;
    if (argc != 4) return 2;
    folder = argv[2];
    pattern = argv[3];
    if (!strcmp(way, "opendir")) add_all(opendir(folder));
    else if (!strcmp(way, "fdopendir")) add_all(fdopendir(open(folder, O_RDONLY | O_DIRECTORY)));
    else if (!strcmp(way, "openat")) {
        const int from = open(folder[0] == '/' ? "/" : ".", O_RDONLY | O_DIRECTORY);
        add_all(fdopendir(openat(from, folder[0] == '/' ? folder + 1 : folder, O_RDONLY | O_DIRECTORY)));
    }
    else if (!strcmp(way, "chdir")) {
        if (chdir(folder) != 0) return 1;
        folder = ".";
        add_all(opendir("."));
    } else if (!strcmp(way, "readdir_r")) {
        DIR* directory = opendir(folder);
        union { struct dirent entry; char room[4096]; } at;
        struct dirent* result;
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        while (directory && readdir_r(directory, &at.entry, &result) == 0 && result) add(result->d_name, result->d_ino);
        closedir(directory);
    } else if (!strcmp(way, "telldir")) { /* each entry twice, from its place */
        DIR* directory = opendir(folder);
        struct dirent* entry;
        for (;;) {
            const long place = telldir(directory);
            char name[256];
            if (!(entry = readdir(directory))) break;
            strcpy(name, entry->d_name);
            add(name, entry->d_ino);
            seekdir(directory, place);
            if (!(entry = readdir(directory)) || strcmp(entry->d_name, name) != 0) return 1;
        }
        closedir(directory);
    } else if (!strcmp(way, "rewinddir")) {
        DIR* directory = opendir(folder);
        while (readdir(directory)) {}
        rewinddir(directory);
        add_all(directory);
    } else if (!strcmp(way, "scandir")) {
        const int entries = scandir(folder, &list, any, alphasort);
        add_list(list, entries);
    } else if (!strcmp(way, "scandirat")) {
        const int entries = scandirat(open(folder, O_RDONLY | O_DIRECTORY), ".", &list, any, NULL);
        add_list(list, entries);
    } else if (!strcmp(way, "glob")) add_by_glob();
    else if (!strcmp(way, "nftw")) nftw(folder, walked, 8, 0);
    else if (!strcmp(way, "ftw")) ftw(folder, walked_simply, 8);
    else return 2;
    qsort(found, (size_t)count, sizeof(found[0]), by_text);
    for (int i = 0; i < count; ++i) puts(found[i]);
    return 0;
}
