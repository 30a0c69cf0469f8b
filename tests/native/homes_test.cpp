// A file of which bytes are on other hosts reads as if all were here: random writes on four hosts, cuts and growths,
// against a vector.
//
// The "other hosts" are parts in this one's shared memory, which are read without a server; so no socket is needed.
#include "board/process.hpp"
#include "board/step_token.hpp"
#include "check.hpp"
#include "far/part.hpp"
#include "steps/creating.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "store/store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace wilkins;

namespace {

// One lead has one part for a slot on each host, so each of these "hosts" says another name for it.
const std::array<std::string, 3> kWhere = {"one:1", "two:2", "three:3"};
const char* const kLead = "lead:9";

Match named(const char* name) {
    Match match;
    CHECK(match_name(name, &match));
    return match;
}

StepFile* create() {
    int error = 0;
    StepFile* const file = open_step(named("homes.h5"), Intent::create, 1, &error);
    CHECK(file && error == 0);
    return file;
}

StepFile* open() {
    int error = 0;
    StepFile* const file = open_step(named("homes.h5"), Intent::read, 1, &error);
    CHECK(file && error == 0);
    return file;
}

std::vector<unsigned char> noise(std::mt19937& random, size_t count) {
    std::vector<unsigned char> bytes(count);
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
    return bytes;
}

void check_range(StepFile* file, const std::vector<unsigned char>& model, size_t begin, size_t end) {
    std::vector<unsigned char> seen(end - begin);
    file->read(begin, seen.data(), seen.size());
    CHECK(file->settle() == 0);
    CHECK(std::equal(seen.begin(), seen.end(), model.begin() + static_cast<std::ptrdiff_t>(begin)));
}

// What a rank on another host does that writes whole sectors: keeps them there, and says so.
void write_elsewhere(StepFile* file, Part* part, uint64_t number, uint64_t begin,
                     const std::vector<unsigned char>& bytes) {
    CHECK(part->hold(begin, begin + bytes.size()) == 0);
    memcpy(part->bytes() + begin, bytes.data(), bytes.size());
    CHECK(file->put(begin, bytes.size(), number) == 0);
}

// `looks`: the writer reads now and then, which brings what it reads.
void random_against_model(unsigned seed, bool looks) {
    std::mt19937 random(seed);
    for (int step = 0; step < 8; ++step) {
        std::vector<unsigned char> model;
        StepFile* const file = create();
        const StepToken token = file->token();
        int error = 0;
        const std::string& where = kWhere[random() % kWhere.size()];
        Part* const part = Part::open(kLead, token.slot, true, &error);
        CHECK(part != nullptr);
        part->begin(token.stamp, where.c_str());
        CHECK(!part->holds(token.stamp + 1, nullptr) && !part->holds(token.stamp, "nobody:0") &&
              part->holds(token.stamp, where.c_str()));
        const int number = homes::number_of(token.slot, where.c_str(), kLead, false);
        CHECK(number == 1 && homes::number_of(token.slot, where.c_str(), kLead, false) == 1);
        for (int k = 0; k < 60; ++k) {
            uint64_t offset = random() % 1000000;
            const unsigned what = random() % 8;
            if (what == 0) {
                model.resize(offset);
                CHECK(file->set_eof(offset) == 0);
                continue;
            }
            if (what < 5) offset -= offset % homes::kSector;
            const size_t count = 1 + random() % (random() % 3 == 0 ? 300 : 200000);
            const size_t length = what < 5 ? (count + homes::kSector - 1) / homes::kSector * homes::kSector : count;
            const std::vector<unsigned char> bytes = noise(random, length);
            if (model.size() < offset + length) model.resize(offset + length);
            memcpy(model.data() + offset, bytes.data(), length);
            if (what < 5) write_elsewhere(file, part, 1, offset, bytes);
            else CHECK(file->write(offset, bytes.data(), length) == 0);
            CHECK(file->eof() == model.size());
            if (!looks || model.empty()) continue;
            const size_t begin = random() % model.size();
            check_range(file, model, begin, begin + random() % (model.size() - begin) + 1);
        }
        if (looks) check_range(file, model, 0, model.size());
        close_step(file);
        StepFile* const reader = open();
        CHECK(reader->eof() == model.size());
        for (int k = 0; k < 20 && !model.empty(); ++k) {
            const size_t begin = random() % model.size();
            check_range(reader, model, begin, begin + random() % std::min<size_t>(model.size() - begin, 70000) + 1);
        }
        check_range(reader, model, 0, model.size());
        close_step(reader);
    }
}

// A step of which half is elsewhere is published so, and only what is read comes.
void what_is_read_comes() {
    constexpr uint64_t kHalf = 64 * kBlock + 100 * homes::kSector;
    std::mt19937 random(5);
    StepFile* const file = create();
    const StepToken token = file->token();
    int error = 0;
    Part* const part = Part::open(kLead, token.slot, true, &error);
    part->begin(token.stamp, kWhere[0].c_str());
    CHECK(homes::number_of(token.slot, kWhere[0].c_str(), kLead, false) == 1);
    std::vector<unsigned char> model = noise(random, 2 * kHalf);
    CHECK(file->write(0, model.data(), kHalf) == 0);
    write_elsewhere(file, part, 1, kHalf,
                    std::vector<unsigned char>(model.begin() + static_cast<std::ptrdiff_t>(kHalf), model.end()));
    close_step(file);
    const SlotRecord& slot = process().board.slot(token.slot);
    CHECK(slot.lazy.is == Absence::scattered && slot.lazy.absent.load() == kHalf / homes::kSector);
    StepFile* const reader = open();
    check_range(reader, model, 0, kHalf);
    CHECK(slot.lazy.absent.load() == kHalf / homes::kSector);
    check_range(reader, model, kHalf + 1, kHalf + 2);
    CHECK(slot.lazy.absent.load() == kHalf / homes::kSector - 1);
    reader->bring({{kHalf + 1000, kHalf + 1001}, {kHalf + 3000, kHalf + 3100}});
    CHECK(slot.lazy.absent.load() == kHalf / homes::kSector - 5);
    // A descriptor shows all of it.
    std::vector<unsigned char> raw(model.size());
    CHECK(pread(reader->descriptor(), raw.data(), raw.size(), 0) == static_cast<ssize_t>(raw.size()));
    CHECK(raw == model && slot.lazy.absent.load() == 0);
    close_step(reader);
}

// A step that was published before its bytes have come can be read up to where they have; who asks for more waits, and
// what may not wait, as what is expected to be read, does not.
void what_comes_is_waited_for() {
    constexpr uint64_t kSize = 10 * kBlock + 33, kFirst = 3 * kBlock + 640;
    std::mt19937 random(7);
    const std::vector<unsigned char> model = noise(random, kSize);
    StepFile* const file = create();
    const StepToken token = file->token();
    SlotRecord& slot = process().board.slot(token.slot);
    CHECK(file->prepare_write(0, kSize, true) == 0 && homes::begin_to_come(file->state) == 0);
    CHECK(homes::here_among(token.slot, {{0, kSize}}, kSize).empty());
    close_step(file);
    StepFile* const filled = open();
    int error = 0;
    StepFile* const reader = hold_too(*filled, &error);
    CHECK(reader && error == 0);
    memcpy(filled->data(), model.data(), kFirst);
    homes::note_come(filled->state, kFirst);
    CHECK(homes::has_come(slot, kFirst) && !homes::has_come(slot, kFirst + 1));
    const std::vector<homes::Range> here = homes::here_among(token.slot, {{0, kSize}}, kSize);
    CHECK(here.size() == 1 && here[0].begin == 0 && here[0].end == kFirst);
    check_range(reader, model, 5, kFirst);
    const homes::Range rest = {kFirst, kSize};
    CHECK(homes::bring(reader->state, &rest, 1, homes::kUnread) == 0 && slot.lazy.absent.load() != 0);
    std::atomic<bool> has_read{false};
    std::thread late([&] {
        check_range(reader, model, kFirst - 100, kSize);
        has_read = true;
    });
    usleep(50'000);
    memcpy(filled->data() + kFirst, model.data() + kFirst, kBlock);
    homes::note_come(filled->state, kFirst + kBlock);
    usleep(50'000);
    CHECK(!has_read);
    memcpy(filled->data() + kFirst, model.data() + kFirst, kSize - kFirst);
    homes::note_come(filled->state, kSize);
    late.join();
    CHECK(has_read && slot.lazy.absent.load() == 0 && slot.lazy.comes.load() == 0);
    close_step(filled);
    close_step(reader);
}

// A run that is stopped while bytes come, as where the relay has died by which they do, lets readers go, with an error.
void a_stop_ends_the_wait() {
    StepFile* const file = create();
    CHECK(file->prepare_write(0, 2 * kBlock, true) == 0 && homes::begin_to_come(file->state) == 0);
    close_step(file);
    StepFile* const reader = open();
    std::thread stopper([] {
        usleep(50'000);
        const Board& board = process().board;
        const Board::Lock lock(board);
        board.head().stopped = 1;
        board.ring(process().first_port);
    });
    char byte;
    reader->read(kBlock, &byte, 1);
    CHECK(reader->settle() == EINTR);
    stopper.join();
    close_step(reader);
}

// Runs and ranges say where bytes are, at their borders, too.
void runs() {
    StepFile* const file = create();
    const StepToken token = file->token();
    int error = 0;
    Part* const part = Part::open(kLead, token.slot, true, &error);
    part->begin(token.stamp, kWhere[0].c_str());
    CHECK(homes::number_of(token.slot, kWhere[0].c_str(), kLead, false) == 1);
    write_elsewhere(file, part, 1, 128, std::vector<unsigned char>(64, 1));
    CHECK(file->write(1000, "x", 1) == 0);
    const std::vector<homes::Run> all = homes::runs_of(token.slot, 100, 500);
    CHECK(all.size() == 3 && all[0].end == 128 && all[0].host == homes::kHere && all[1].end == 192 &&
          all[1].host == 1 && all[2].end == 500);
    const std::vector<homes::Range> here = homes::here_among(token.slot, {{0, UINT64_MAX}}, 1001);
    CHECK(here.size() == 2 && here[0].end == 128 && here[1].begin == 192 && here[1].end == 1001);
    CHECK(file->put(1, 64, 1) == EPROTO && file->put(64, 63, 1) == EPROTO && file->put(0, 64, 0) == EPROTO);
    discard_step(file);
}

}  // namespace

int main() {
    test::Scratch scratch;
    test::join_loop(scratch, "*.h5", 1, 0);
    runs();
    what_is_read_comes();
    for (unsigned seed = 1; seed < 5; ++seed) {
        random_against_model(seed, false);
        random_against_model(seed, true);
    }
    what_comes_is_waited_for();
    a_stop_ends_the_wait();
    return 0;
}
