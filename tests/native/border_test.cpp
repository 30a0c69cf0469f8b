// Where memory is short, the launcher's calls fail with their own error, and no exception gets out of them.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "board.hpp"
#include "check.hpp"
#include "queue.hpp"

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
BoardPlan* wilkins_plan_new();
void wilkins_plan_free(BoardPlan* plan);
int wilkins_plan_task(BoardPlan* plan, const char* name, int nprocs);
int wilkins_plan_port(BoardPlan* plan, int task, int is_out, const char* pattern, uint64_t cap);
int wilkins_plan_channel(BoardPlan* plan, int outport, int inport, unsigned every, unsigned offset, unsigned queue, unsigned when_full, int readers,
                         int readers_given);
int wilkins_plan_create(BoardPlan* plan, const char* folder, const char* log_file, const char* trace_file);
struct Watched;  // the launcher's board (capi.cpp)
Watched* wilkins_board_attach(const char* folder, int* error);
void wilkins_board_detach(Watched* board);
size_t wilkins_report(const Watched* board, char* text, size_t room);
size_t wilkins_stuck(const Watched* board, char* text, size_t room);
}

namespace {

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
    BoardPlan* const plan = wilkins_plan_new();
    const auto is_short = [](int error) { return error == ENOMEM; };
    CHECK(with_each_failing([=] { return wilkins_plan_task(plan, kLongName, 1); }, is_short) > 0);
    CHECK(with_each_failing([=] { return wilkins_plan_task(plan, kLongName, 1); }, is_short) > 0);
    CHECK(with_each_failing([=] { return wilkins_plan_port(plan, 0, 1, "some-long-name-of-files-*.h5", 0); }, is_short) > 0);
    CHECK(with_each_failing([=] { return wilkins_plan_port(plan, 1, 0, "some-long-name-of-files-*.h5", 0); }, is_short) > 0);
    CHECK(with_each_failing([=] { return wilkins_plan_channel(plan, 0, 1, 1, 0, 1, 0, 1, 0); }, is_short) > 0);
    CHECK(with_each_failing([&] { return wilkins_plan_create(plan, scratch.path.c_str(), kLongName, kLongName); }, is_short) > 0);
    wilkins_plan_free(plan);

    int error = 0;
    Watched* watched = nullptr;
    const int n = with_each_failing([&] { return (watched = wilkins_board_attach(scratch.path.c_str(), &error)); },
                                    [&](Watched* made) { return made == nullptr && error == ENOMEM; });
    CHECK(n > 0);
    Board board;
    CHECK(board.attach(scratch.path.c_str()) == 0);
    RankRecord& reader = board.rank(1);
    reader.wait = WaitFor::data;
    reader.wait_port = 1;
    reader.wait_process = board.self();
    std::vector<char> text(1 << 16);
    const auto no_text = [](size_t length) { return length == SIZE_MAX && errno == ENOMEM; };
    CHECK(with_each_failing([&] { errno = 0; return wilkins_report(watched, text.data(), text.size()); }, no_text) > 0);
    CHECK(with_each_failing([&] { errno = 0; return wilkins_stuck(watched, text.data(), text.size()); }, no_text) > 0);
    Board::Lock lock(board);  // nobody has kept it
    lock.release();
    wilkins_board_detach(watched);
}

}  // namespace

int main() {
    plans();
    puts("border: ok");
}
