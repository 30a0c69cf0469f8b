// Where memory is short, the launcher's calls fail with their own error, and no exception gets out of them.
#include <pthread.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "board/board.hpp"
#include "board/border.hpp"
#include "check.hpp"
#include "queue/queue.hpp"

using namespace wilkins;

namespace {

int left = -1;  // allocations that succeed until one fails; below 0: all do

void* allocate(size_t size) {
    if (left == 0) {
        left = -1;
        return nullptr;
    }
    if (left > 0) --left;
    return malloc(size);
}

}  // namespace

void* operator new(size_t size) {
    if (void* place = allocate(size)) return place;
    throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* place) noexcept { free(place); }
void operator delete(void* place, size_t) noexcept { free(place); }
void operator delete(void* place, const std::nothrow_t&) noexcept { free(place); }

extern "C" {
int wilkins_board_create(const char* folder, const plan::Arrays* run);
struct Watched;  // the launcher's board (python/board.cpp)
Watched* wilkins_board_attach(const char* folder, int* error);
void wilkins_board_detach(Watched* board);
size_t wilkins_report(const Watched* board, int threads, char* text, size_t room);
size_t wilkins_stuck(const Watched* board, char* text, size_t room);
}

namespace {

constexpr const char* kLongPattern = "some-long-name-of-files-*.h5";
constexpr const char* kLongName = "a name that is too long to be kept where the string itself is";

// Lets each allocation of a call fail, one after the other, until none is left to fail; returns how many did.
template <class Call, class Failed>
int with_each_failing(Call call, Failed failed) {
    for (int n = 0;; ++n) {
        left = n;
        const auto answer = call();
        const bool all_succeeded = left >= 0;
        left = -1;
        if (all_succeeded) {
            CHECK(!failed(answer));
            return n;
        }
        CHECK(failed(answer));
    }
}

void plans() {
    test::Scratch scratch;
    const plan::BoardTask tasks[] = {{kLongName, 1}, {kLongName, 1}};
    const plan::BoardPort ports[] = {{{}, 0, Direction::out, kLongPattern}, {{}, 1, Direction::in, kLongPattern}};
    const plan::BoardChannel channel = {0, 1, 1, 1, WhenFull::block, 1};
    const plan::Begin begin = {0, 0, 1};
    const plan::FirstStep first = {0, 0, 1, 1};
    const plan::Arrays run = {tasks, 2, ports, 2, &channel, 1, &begin, 1, &first, 1, kLongName, kLongName, 0};
    CHECK(with_each_failing([&] { return wilkins_board_create(scratch.path.c_str(), &run); },
                            [](int error) { return error == ENOMEM; }) > 0);

    int error = 0;
    Watched* watched = nullptr;
    const int n = with_each_failing([&] { return (watched = wilkins_board_attach(scratch.path.c_str(), &error)); },
                                    [&](Watched* made) { return made == nullptr && error == ENOMEM; });
    CHECK(n > 0);
    Board board;
    CHECK(board.attach(scratch.path.c_str()) == 0);
    WaitRecord& reader = board.rank(1).waits[0];
    reader.what = WaitFor::data;
    reader.port = 1;
    reader.process = board.self();
    std::vector<char> text(1 << 16);
    const auto no_text = [](size_t length) { return length == SIZE_MAX && errno == ENOMEM; };
    CHECK(with_each_failing(
              [&] {
                  errno = 0;
                  return wilkins_report(watched, 1, text.data(), text.size());
              },
              no_text) > 0);
    CHECK(with_each_failing(
              [&] {
                  errno = 0;
                  return wilkins_stuck(watched, text.data(), text.size());
              },
              no_text) > 0);
    Board::Lock lock(board);  // nobody has kept it
    lock.release();
    wilkins_board_detach(watched);
}

template <class Thrown>
int answer_to(Thrown thrown) {
    return guarded("a call", [&]() -> int { throw thrown; }, [](int error) { return error; });
}

// What is thrown in the layer becomes an errno.
void errors() {
    CHECK(answer_to(std::bad_alloc()) == ENOMEM && errno == ENOMEM);
    CHECK(answer_to(std::length_error("too long")) == EIO && errno == EIO);
    CHECK(answer_to(std::system_error(EDEADLK, std::generic_category())) == EDEADLK && errno == EDEADLK);
    CHECK(guarded("a call", [] { return 5; }, [](int) { return -1; }) == 5);
}

// The end of a thread goes through the layer.
void ends_of_threads() {
    static bool failed = false;
    pthread_t thread;
    const auto end = [](void*) -> void* {
        return guarded(
            "a call", []() -> void* { pthread_exit(&failed); },
            [](int) -> void* {
                failed = true;
                return nullptr;
            });
    };
    void* result = nullptr;
    CHECK(pthread_create(&thread, nullptr, end, nullptr) == 0 && pthread_join(thread, &result) == 0);
    CHECK(result == &failed && !failed);
}

}  // namespace

int main() {
    plans();
    errors();
    ends_of_threads();
    puts("border: ok");
}
