// Producers and consumers of a fixed name are killed at any moment and started again: what arrives is whole, in order
// and arrives once, and nobody waits for ever. What is on disk is whole too, in modes that keep it there.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "board/process.hpp"
#include "check.hpp"
#include "queue/queue.hpp"
#include "steps/creating.hpp"
#include "steps/disk.hpp"
#include "store/store.hpp"

using namespace wilkins;

namespace {

constexpr unsigned kLimit = 500;  // seconds after which a process that hangs is killed, and the test fails
#ifdef __SANITIZE_THREAD__
constexpr int kKills = 100;  // each process takes several times as long
constexpr int kKillsOnDisk = 30;
#else
constexpr int kKills = 400;
constexpr int kKillsOnDisk = 100;
#endif
constexpr int kSinks = 2;

// What the consumers tell the parent about the steps they got, whole or not.
struct Report {
    int sink;
    uint32_t incarnation, number;
    int whole;
};

uint32_t word(uint32_t incarnation, uint32_t number, size_t k) {
    return incarnation * 2654435761u + number * 40503u + static_cast<uint32_t>(k);
}

StepFile* open(Intent intent, int* error) {
    Match match;
    CHECK(match_name("out.h5", &match));
    return open_step(match, intent, 1, error);
}

void produce(uint32_t incarnation) {
    std::mt19937 random(incarnation);
    for (uint32_t number = 0;; ++number) {
        int error = 0;
        StepFile* file = open(Intent::create, &error);
        CHECK(file);
        // Sizes that differ, with borders inside blocks; what stays unwritten in the middle must read as zeros.
        std::vector<uint32_t> data(2048 + random() % 60000);
        for (size_t k = 0; k < data.size(); ++k) data[k] = word(incarnation, number, k);
        data[0] = incarnation;
        data[1] = number;
        data[2] = static_cast<uint32_t>(data.size());
        const size_t half = data.size() / 2, gap = random() % 100000;
        CHECK(file->write(0, data.data(), half * 4) == 0);
        CHECK(file->write(half * 4 + gap, data.data() + half, (data.size() - half) * 4) == 0);
        close_step(file);
    }
}

// Is it one of the producer's files, and complete?
bool is_whole(const std::vector<unsigned char>& bytes) {
    uint32_t head[3];
    if (bytes.size() < sizeof(head)) return false;
    memcpy(head, bytes.data(), sizeof(head));
    if (bytes.size() < size_t{head[2]} * 4) return false;
    const size_t half = head[2] / 2;
    const size_t gap = bytes.size() - size_t{head[2]} * 4;
    for (size_t k = 3; k < head[2]; ++k) {
        uint32_t value;
        memcpy(&value, bytes.data() + k * 4 + (k < half ? 0 : gap), 4);
        if (value != word(head[0], head[1], k)) return false;
    }
    for (size_t i = 0; i < gap; ++i)
        if (bytes[half * 4 + i] != 0) return false;
    return true;
}

void consume(int sink, int pipe) {
    for (;;) {
        int error = 0;
        StepFile* file = open(Intent::read, &error);
        CHECK(file);
        std::vector<unsigned char> bytes(file->eof());
        file->read(0, bytes.data(), bytes.size());
        close_step(file);
        CHECK(bytes.size() >= 8);
        uint32_t head[2];
        memcpy(head, bytes.data(), sizeof(head));
        const Report report = {sink, head[0], head[1], is_whole(bytes)};
        CHECK(write(pipe, &report, sizeof(report)) == sizeof(report));
    }
}

pid_t start(const char* folder, int task, uint32_t incarnation, int pipe) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) return child;
    alarm(kLimit);
    setenv("WILKINS_RUN", folder, 1);
    setenv("WILKINS_TASK", std::to_string(task).c_str(), 1);
    setenv("WILKINS_RANK", "0", 1);
    CHECK(context().active);
    if (task == 0) produce(incarnation);
    else consume(task, pipe);
    _exit(1);
}

// Neither a partial file nor, once the slots are let go, anything hidden. In a process of its own: one that has looked
// at the disk has settled that it is in no run.
void check_disk(const Board& board, bool over) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) {
        int status = 1;
        CHECK(libc::waitpid(child, &status, 0) == child && status == 0);
        return;
    }
    std::ifstream file("out.h5", std::ios::binary);
    if (file) CHECK(is_whole(std::vector<unsigned char>(std::istreambuf_iterator<char>(file), {})));
    if (!over) _exit(0);
    CHECK(file);
    for (int slot = 0; slot < board.head().slots; ++slot) disk::forget(board, slot);
    for (const auto& entry : std::filesystem::directory_iterator(".")) CHECK(entry.path().filename() == "out.h5");
    _exit(0);
}

void storm(unsigned seed, WhenFull when, Mode mode, int kills) {
    test::Scratch scratch;
    const std::string folder = scratch.path + "/disk";
    CHECK(mkdir(folder.c_str(), 0700) == 0 && chdir(folder.c_str()) == 0);
    BoardPlan plan;
    plan.tasks = {{"sim", 1}};
    plan.ports = {{0, Direction::out, "out.h5", mode == Mode::file ? 0 : 2u << 20}};
    plan.ports[0].keys.mode = mode;
    for (int sink = 1; sink <= kSinks; ++sink) {
        plan.tasks.push_back({"look" + std::to_string(sink), 1});
        plan.ports.push_back({sink, Direction::in, "out.h5", 0});
        plan.channels.push_back({0, sink, 1, 2, when, 1});
    }
    CHECK(create_board(scratch.path.c_str(), plan) == 0);
    Board board;
    CHECK(board.attach(scratch.path.c_str()) == 0);
    int ends[2];
    CHECK(pipe(ends) == 0);

    std::mt19937 random(seed);
    uint32_t incarnation = 0;
    std::vector<pid_t> running(kSinks + 1);
    uint32_t last[kSinks + 1][2] = {};
    bool any[kSinks + 1] = {};
    int arrived = 0;
    auto begin = [&](int task) {
        {
            Board::Lock lock(board);
            queue::task_started(board, task);
        }
        running[static_cast<size_t>(task)] = start(scratch.path.c_str(), task, task == 0 ? ++incarnation : 0, ends[1]);
    };
    auto one_report = [&] {
        Report report;
        CHECK(read(ends[0], &report, sizeof(report)) == sizeof(report));
        CHECK(report.whole);
        uint32_t* before = last[report.sink];
        const bool later =
            report.incarnation > before[0] || (report.incarnation == before[0] && report.number > before[1]);
        CHECK(!any[report.sink] || later);
        any[report.sink] = true;
        before[0] = report.incarnation;
        before[1] = report.number;
        ++arrived;
    };
    for (int task = 0; task <= kSinks; ++task) begin(task);
    for (int kill_number = 0; kill_number < kills; ++kill_number) {
        for (unsigned n = 1 + random() % 4; n > 0; --n) one_report();
        const auto victim = random() % running.size();
        usleep(static_cast<useconds_t>(random() % 2000));
        CHECK(kill(running[victim], SIGKILL) == 0);
        int status = 0;
        CHECK(libc::waitpid(running[victim], &status, 0) == running[victim]);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        {
            Board::Lock lock(board);
            queue::task_exited(board, static_cast<int>(victim), false);
            CHECK(queue::count_holds(board, static_cast<int>(victim)) == 0);
            CHECK(!board.head().failure[0]);
        }
        if (mode != Mode::memory) check_disk(board, false);
        begin(static_cast<int>(victim));
    }
    for (int n = 0; n < 20; ++n) one_report();
    for (pid_t pid : running) {
        CHECK(kill(pid, SIGKILL) == 0);
        CHECK(libc::waitpid(pid, nullptr, 0) == pid);
    }
    close(ends[0]);
    close(ends[1]);
    CHECK(arrived >= kills);
    if (mode != Mode::memory) check_disk(board, true);
    CHECK(chdir("/") == 0);
}

}  // namespace

int main() {
    alarm(kLimit);
    const char* text = getenv("WILKINS_TEST_FEWER_KILLS");  // divides their number, for a quick round
    const int fewer = text ? atoi(text) : 1;
    storm(1, WhenFull::block, Mode::memory, kKills / fewer);
    storm(2, WhenFull::drop_oldest, Mode::memory, kKills / fewer);
    storm(3, WhenFull::block, Mode::both, kKillsOnDisk / fewer);
    storm(4, WhenFull::drop_oldest, Mode::file, kKillsOnDisk / fewer);
    storm(5, WhenFull::block, Mode::file, kKillsOnDisk / fewer);
    puts("fault: ok");
}
