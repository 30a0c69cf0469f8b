// Obeying WILKINS_FAULTS.
#include "base/fault.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

// The linker names the ends of the section that holds the points' names.
extern "C" __attribute__((visibility("hidden"))) const char* const __start_wilkins_faults[];
extern "C" __attribute__((visibility("hidden"))) const char* const __stop_wilkins_faults[];

namespace wilkins::fault {

bool enabled = false;

namespace {

struct Settings {
    uint64_t seed = 0;
    uint64_t delay_ns = 0;
    double chance = 0.5;
    std::string end;  // the point at which the process sends itself a signal, or throws
    int end_at = 1;
    int end_by = SIGKILL;  // 0: throws
    double flip = 0, flip_words = 0, flip_memory = 0;
    std::string task;
    int rank = -1;
};

// Made when it is first needed, which may be before this library's own variables are initialised.
Settings& settings() {
    static Settings* const made = new Settings();
    return *made;
}

std::atomic<uint64_t> draws{0};
std::atomic<int> arrivals{0};

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

double draw() {
    const uint64_t k = draws.fetch_add(1, std::memory_order_relaxed);
    return static_cast<double>(mixed(settings().seed + (k + 1) * 0x9e3779b97f4a7c15ull) >> 11) * 0x1p-53;
}

uint64_t duration_ns(const char* text) {
    char* unit;
    const double number = strtod(text, &unit);
    const double scale = strcmp(unit, "us") == 0 ? 1e3 : strcmp(unit, "ms") == 0 ? 1e6 : 1e9;
    return static_cast<uint64_t>(number * scale);
}

void set(Settings& to, const std::string& key, const std::string& value) {
    if (key == "seed") to.seed = strtoull(value.c_str(), nullptr, 10);
    if (key == "delay") to.delay_ns = duration_ns(value.c_str());
    if (key == "chance") to.chance = strtod(value.c_str(), nullptr);
    if (key == "flip") to.flip = strtod(value.c_str(), nullptr);
    if (key == "flip-words") to.flip_words = strtod(value.c_str(), nullptr);
    if (key == "flip-memory") to.flip_memory = strtod(value.c_str(), nullptr);
    if (key == "task") to.task = value;
    if (key == "rank") to.rank = atoi(value.c_str());
    if (key == "kill" || key == "stop" || key == "throw") {
        const size_t colon = value.find(':');
        to.end = value.substr(0, colon);
        to.end_by = key == "kill" ? SIGKILL : key == "stop" ? SIGSTOP : 0;
        if (colon != std::string::npos) to.end_at = atoi(value.c_str() + colon + 1);
    }
}

// Calls `each` with the parts of a text between separators.
template <class F>
void split(const std::string& text, char separator, F each) {
    for (size_t begin = 0; begin <= text.size();) {
        size_t end = text.find(separator, begin);
        if (end == std::string::npos) end = text.size();
        each(text.substr(begin, end - begin));
        begin = end + 1;
    }
}

}  // namespace

void configure(const char* task, int rank) {
    const char* text = getenv("WILKINS_FAULTS");
    if (!text || enabled) return;
    bool found = false;
    split(text, ';', [&](const std::string& part) {
        Settings read;
        split(part, ',', [&](const std::string& word) {
            const size_t equals = word.find('=');
            if (equals != std::string::npos) set(read, word.substr(0, equals), word.substr(equals + 1));
        });
        if (found || (!read.task.empty() && read.task != task) || (read.rank >= 0 && read.rank != rank)) return;
        found = true;
        settings() = std::move(read);
    });
    // Processes of one seed differ, and each does the same again.
    for (const char* c = task; *c; ++c) settings().seed = mixed(settings().seed + static_cast<unsigned char>(*c));
    enabled = found;
}

namespace {

bool falls_out(double chance) { return enabled && chance > 0 && draw() < chance; }

}  // namespace

bool flips(bool bytes) { return falls_out(bytes ? settings().flip : settings().flip_words); }

bool flips_memory() { return falls_out(settings().flip_memory); }

void hit(const char* point) {
    if (settings().end == point && arrivals.fetch_add(1) + 1 == settings().end_at) {
        if (settings().end_by == 0) throw std::bad_alloc();
        kill(getpid(), settings().end_by);
        while (settings().end_by == SIGKILL) pause();  // another thread may have to be stopped first
    }
    if (settings().delay_ns == 0 || draw() >= settings().chance) return;
    const auto ns = static_cast<long>(draw() * static_cast<double>(settings().delay_ns));
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    const int before = errno;
    while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &left, &left) != 0 && errno == EINTR) {}
    errno = before;
}

}  // namespace wilkins::fault

// The names of all points, each at least once.
extern "C" __attribute__((visibility("default"))) const char* const* wilkins_fault_points(size_t* count) {
    *count = static_cast<size_t>(__stop_wilkins_faults - __start_wilkins_faults);
    return __start_wilkins_faults;
}
