// What leaves functions of the C library otherwise than by a return: a thread that is canceled in a call, one that ends in
// a callback, and an exception that a callback throws.
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace {

int pipe_ends[2];

struct Told {
    const char* words;
    ~Told() { printf("%s: cleaned up\n", words); }
};

void* joined(void* (*body)(void*), bool cancel) {
    pthread_t thread;
    void* result = nullptr;
    if (pthread_create(&thread, nullptr, body, nullptr)) return nullptr;
    if (cancel) pthread_cancel(thread);
    pthread_join(thread, &result);
    return result;
}

void* reads(void*) {
    Told told{"read"};
    char byte;
    return read(pipe_ends[0], &byte, 1) == 1 ? nullptr : pipe_ends;
}

void* lists(void*) {
    Told told{"pthread_exit"};
    struct dirent** list = nullptr;
    scandir("/", &list, [](const struct dirent*) -> int { pthread_exit(pipe_ends); }, nullptr);
    return nullptr;
}

}  // namespace

int main() {
    if (pipe(pipe_ends)) return 1;
    printf("read: canceled %d\n", joined(reads, true) == PTHREAD_CANCELED);
    printf("pthread_exit: in the callback %d\n", joined(lists, false) == pipe_ends);
    try {
        Told told{"throw"};
        struct dirent** list = nullptr;
        scandir("/", &list, [](const struct dirent*) -> int { throw std::runtime_error("the program's own"); }, nullptr);
    } catch (const std::exception& what) {
        printf("throw: %s\n", what.what());
    }
}
