// The C library's calls on names in memory while each allocation of the layer fails in turn; callbacks that throw and that end
// their thread: short_memory_names first|names|callbacks.
#include "short_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace {

#define REQUIRE(condition)                                                                              \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            left = -1;                                                                                  \
            dprintf(2, "short_memory_names.cpp:%d: not so: %s, errno %d\n", __LINE__, #condition, errno); \
            _exit(1);                                                                                   \
        }                                                                                               \
    } while (false)

constexpr const char* kName = "step-with-a-name-that-is-not-short-0001.h5";

// Carries out `call`, which says whether it has succeeded, with each allocation failing in turn, until none is left to fail.
// A call that has not succeeded says that there is no memory. Returns how many have failed.
template <class Call>
int with_each_failing(Call call) {
    for (int n = 0;; ++n) {
        errno = 0;
        fail_at(n);
        const bool succeeded = call();
        const int error = errno;
        if (none_failed()) {
            REQUIRE(succeeded);
            return n;
        }
        errno = error;
        REQUIRE(succeeded || errno == ENOMEM);
    }
}

bool is_step(const struct dirent* entry) { return strcmp(entry->d_name, kName) == 0; }

// Does the open directory show the step? With errno as readdir leaves it.
bool shows_step(DIR* directory) {
    bool found = false;
    errno = 0;
    while (const struct dirent* entry = readdir(directory)) found = found || is_step(entry);
    return found && errno == 0;
}

bool lists_step(DIR* directory) {
    if (!directory) return false;
    const bool found = shows_step(directory);
    const int error = errno;
    closedir(directory);
    errno = error;
    return found;
}

int only_step(const struct dirent* entry) { return is_step(entry); }

bool scan_finds_step() {
    struct dirent** list = nullptr;
    const int count = scandir(".", &list, only_step, alphasort);
    if (count < 0) return false;
    REQUIRE(count == 1);
    free(list[0]);
    free(list);
    return true;
}

void write_step() {
    const int fd = open(kName, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    REQUIRE(fd >= 0 && write(fd, "data", 4) == 4 && close(fd) == 0);
}

bool rewrites() {
    const int fd = open(kName, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) return false;
    const bool written = write(fd, "data", 4) == 4;
    return close(fd) == 0 && written;
}

bool reads() {
    FILE* stream = fopen(kName, "r");
    if (!stream) return false;
    char found[4];
    REQUIRE(fread(found, 1, 4, stream) == 4 && memcmp(found, "data", 4) == 0);
    fclose(stream);
    return true;
}

void names() {
    struct stat st;
    REQUIRE(stat("nothing.h5", &st) == -1 && errno == ENOENT);
    write_step();
    REQUIRE(with_each_failing([] { return lists_step(opendir(".")); }) > 2);
    REQUIRE(with_each_failing([] {
        const int fd = open(".", O_RDONLY | O_DIRECTORY);
        REQUIRE(fd >= 0);
        DIR* const directory = fdopendir(fd);
        if (directory) return lists_step(directory);
        const int error = errno;
        REQUIRE(close(fd) == 0);  // still the program's
        errno = error;
        return false;
    }) > 2);
    REQUIRE(with_each_failing(scan_finds_step) > 2);
    DIR* const directory = opendir(".");
    REQUIRE(shows_step(directory));
    REQUIRE(with_each_failing([=] { rewinddir(directory); return true; }) > 0);
    rewinddir(directory);
    REQUIRE(shows_step(directory));
    closedir(directory);
    with_each_failing([] { struct stat found; return stat(kName, &found) == 0 && found.st_size == 4; });
    with_each_failing([] { return access(kName, R_OK) == 0; });
    REQUIRE(with_each_failing(reads) > 0);
    REQUIRE(with_each_failing(rewrites) > 0);
    with_each_failing([] { return unlink(kName) == 0; });
}

// Each first call of a process, which joins the run.
void first() {
    for (int n = 0, more = 1; more; ++n) {
        const pid_t child = fork();
        if (child == 0) {
            fail_at(n);
            const bool succeeded = rewrites();
            const int error = errno;
            const bool none = none_failed();
            REQUIRE(succeeded || (!none && error == ENOMEM));
            _exit(none ? 3 : 0);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
        REQUIRE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3);
        more = WEXITSTATUS(status) == 0;
        REQUIRE(n < 100 && (n > 0 || more));
    }
}

int throwing(const struct dirent*) { throw std::length_error("the program's own"); }

int ending(const struct dirent* entry) {
    if (is_step(entry)) pthread_exit(nullptr);
    return 0;
}

int throwing_for_step(const struct dirent* entry) { return is_step(entry) ? throwing(entry) : 0; }

void callbacks() {
    write_step();
    for (auto filter : {throwing, throwing_for_step}) {
        struct dirent** list = nullptr;
        bool caught = false;
        try {
            scandir(".", &list, filter, alphasort);
        } catch (const std::length_error& thrown) {
            caught = strcmp(thrown.what(), "the program's own") == 0;
        }
        REQUIRE(caught && std::uncaught_exceptions() == 0);
    }
    pthread_t thread;
    REQUIRE(pthread_create(&thread, nullptr, [](void*) -> void* {
        struct dirent** list = nullptr;
        scandir(".", &list, ending, alphasort);
        return list;
    }, nullptr) == 0);
    void* result = nullptr;
    REQUIRE(pthread_join(thread, &result) == 0 && result == nullptr);
    REQUIRE(scan_finds_step());
}

}  // namespace

int main(int argc, char** argv) {
    REQUIRE(argc == 2);
    if (strcmp(argv[1], "first") == 0) first();
    if (strcmp(argv[1], "names") == 0) names();
    if (strcmp(argv[1], "callbacks") == 0) callbacks();
    printf("%s: all answers right\n", argv[1]);
}
