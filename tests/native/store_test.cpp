// Steps in shared memory: what is read is what was written, zeros elsewhere, with many threads and within a cap.
#include "board/process.hpp"
#include "check.hpp"
#include "queue/queue.hpp"
#include "steps/creating.hpp"
#include "steps/snapshot.hpp"
#include "steps/step_file.hpp"
#include "store/store.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

using namespace wilkins;

namespace {

Match named(const char* name) {
    Match match;
    CHECK(match_name(name, &match));
    return match;
}

StepFile* create(const char* name) {
    int error = 0;
    StepFile* file = open_step(named(name), Intent::create, 1, &error);
    CHECK(file && error == 0);
    return file;
}

StepFile* open(const char* name) {
    int error = 0;
    StepFile* file = open_step(named(name), Intent::read, 1, &error);
    CHECK(file && error == 0);
    return file;
}

std::vector<unsigned char> all_of(StepFile* file) {
    std::vector<unsigned char> bytes(file->eof());
    file->read(0, bytes.data(), bytes.size());
    return bytes;
}

// Random writes, growths and cuts, against a vector that does the same. Arenas are reused with other contents.
void random_against_model() {
    std::mt19937 random(7);
    for (int step = 0; step < 30; ++step) {
        const bool looks = step % 2 == 0;  // what is read of a block makes all of it valid
        std::vector<unsigned char> model;
        StepFile* file = create("random.h5");
        for (int k = 0; k < 40; ++k) {
            const uint64_t offset = random() % 400000;
            if (random() % 5 == 0) {
                model.resize(offset);
                CHECK(file->set_eof(offset) == 0);
            } else {
                std::vector<unsigned char> data(random() % 200000);
                for (auto& byte : data) byte = static_cast<unsigned char>(random());
                if (data.empty()) continue;
                if (model.size() < offset + data.size()) model.resize(offset + data.size());
                memcpy(model.data() + offset, data.data(), data.size());
                CHECK(file->write(offset, data.data(), data.size()) == 0);
            }
            CHECK(file->eof() == model.size());
            if (looks) CHECK(all_of(file) == model);
        }
        close_step(file);
        StepFile* reader = open("random.h5");
        CHECK(all_of(reader) == model);
        CHECK(reader->write(0, "x", 1) == EBADF);
        // The arena's file is the step, byte by byte.
        std::vector<unsigned char> raw(model.size() + 1);
        CHECK(pread(reader->descriptor(), raw.data(), raw.size(), 0) == static_cast<ssize_t>(model.size()));
        raw.pop_back();
        CHECK(raw == model);
        unsigned char past[16];
        memset(past, 1, sizeof(past));
        reader->read(model.size(), past, sizeof(past));
        for (unsigned char byte : past) CHECK(byte == 0);
        close_step(reader);
    }
}

// The most memory that a run took is what it got: not what another rank has asked for at that moment, and may not get.
void most_memory() {
    const Board& board = process().board;
    const int other = board.head().slots - 1;
    const auto asked = [&](int64_t bytes) {
        Board::Lock lock(board);
        board.head().reserving += bytes > 0 ? 1 : -1;
        board.slot(other).accounted += static_cast<uint64_t>(bytes);
        board.port(board.source(board.slot(other).source).port).used += static_cast<uint64_t>(bytes);
        board.head().memory += static_cast<uint64_t>(bytes);
    };
    asked(1 << 24);
    StepFile* file = create("most.h5");
    CHECK(file->write(0, "x", 1) == 0);
    CHECK(board.head().memory_peak == kBlock);
    asked(-(1 << 24));
    CHECK(board.head().memory == kBlock);
    close_step(file);
    close_step(open("most.h5"));
}

// One producer, one consumer, a queue between them: every step arrives once, in order, whole.
void stream_of_steps() {
    constexpr int kSteps = 100;
    std::thread producer([] {
        std::vector<uint32_t> data(50000);
        for (int i = 0; i < kSteps; ++i) {
            for (size_t k = 0; k < data.size(); ++k)
                data[k] = static_cast<uint32_t>(i) * 7919u + static_cast<uint32_t>(k);
            StepFile* file = create("stream.h5");
            CHECK(file->write(0, data.data(), data.size() * 4) == 0);
            close_step(file);
        }
    });
    for (int i = 0; i < kSteps; ++i) {
        StepFile* file = open("stream.h5");
        CHECK(file->eof() == 200000);
        std::vector<uint32_t> data(50000);
        file->read(0, data.data(), 200000);
        for (size_t k = 0; k < data.size(); ++k)
            CHECK(data[k] == static_cast<uint32_t>(i) * 7919u + static_cast<uint32_t>(k));
        close_step(file);
    }
    producer.join();
}

// Several ranks write interleaved pieces of one step at once, borders inside blocks included; gaps read as zeros.
void many_writers() {
    constexpr int kWriters = 4;
    constexpr uint64_t kPiece = 30011, kPieces = 64;
    for (int round = 0; round < 4; ++round) {
        StepFile* lead = create("shared.h5");
        std::vector<std::thread> threads;
        threads.reserve(kWriters);
        for (int w = 0; w < kWriters; ++w)
            threads.emplace_back([&, w] {
                int error = 0;
                StepFile* mine = attach_step(lead->token(), true, lead->name(), &error);
                CHECK(mine);
                std::vector<unsigned char> piece(kPiece, static_cast<unsigned char>(w + 1 + round));
                for (uint64_t k = static_cast<uint64_t>(w); k < kPieces; k += kWriters)
                    if (k % 5 != 0) CHECK(mine->write(k * kPiece, piece.data(), kPiece) == 0);
                close_step(mine);
            });
        for (auto& thread : threads) thread.join();
        CHECK(lead->set_eof(kPiece * kPieces) == 0);
        close_step(lead);
        StepFile* reader = open("shared.h5");
        const auto bytes = all_of(reader);
        CHECK(bytes.size() == kPiece * kPieces);
        for (uint64_t k = 0; k < kPieces; ++k) {
            const unsigned char expected =
                k % 5 == 0 ? 0 : static_cast<unsigned char>(k % kWriters + 1 + static_cast<uint64_t>(round));
            for (uint64_t i = 0; i < kPiece; ++i) CHECK(bytes[k * kPiece + i] == expected);
        }
        close_step(reader);
    }
}

// Ranks write pieces of all lengths in any order, and some read meanwhile: around borders within 512 bytes, too,
// nothing is lost, and what nobody writes is zero.
void pieces_of_all_lengths() {
    constexpr int kWriters = 4;
    constexpr uint64_t kSize = 3 << 20;
    struct Piece {
        uint64_t begin, end;
        unsigned char byte;
    };
    std::mt19937 random(11);
    for (int round = 0; round < 40; ++round) {
        std::vector<unsigned char> model(kSize);
        std::vector<Piece> pieces[kWriters];
        for (uint64_t at = 0; at < kSize;) {
            const uint64_t length = random() % 3 == 0   ? 1 + random() % 700
                                    : random() % 2 == 0 ? 512 * (1 + random() % 40)
                                                        : 4096 + random() % 100000;
            const uint64_t end = std::min(kSize, at + length);
            if (random() % 8 != 0) {
                const auto byte = static_cast<unsigned char>(1 + random() % 255);
                pieces[random() % kWriters].push_back({at, end, byte});
                std::fill(model.begin() + static_cast<int64_t>(at), model.begin() + static_cast<int64_t>(end), byte);
            }
            at = end;
        }
        StepFile* lead = create("pieces.h5");
        std::vector<std::thread> threads;
        for (auto& mine : pieces) {
            std::shuffle(mine.begin(), mine.end(), random);
            threads.emplace_back([&mine, lead, reads = random() % 4 == 0] {
                int error = 0;
                StepFile* file = attach_step(lead->token(), true, lead->name(), &error);
                CHECK(file);
                std::vector<unsigned char> data, seen;
                for (const Piece& piece : mine) {
                    data.assign(piece.end - piece.begin, piece.byte);
                    CHECK(file->write(piece.begin, data.data(), data.size()) == 0);
                    if (!reads) continue;
                    seen.assign(data.size(), 0);
                    file->read(piece.begin, seen.data(), seen.size());
                    CHECK(seen == data);
                }
                close_step(file);
            });
        }
        for (auto& thread : threads) thread.join();
        CHECK(lead->set_eof(kSize) == 0);
        close_step(lead);
        StepFile* reader = open("pieces.h5");
        CHECK(all_of(reader) == model);
        close_step(reader);
    }
}

// A rank looks at a block that got memory after it has looked how much there is: another rank writes a part of it.
void looks_while_the_file_grows() {
    StepFile* lead = create("growing.h5");
    const std::vector<unsigned char> data(5000, 7);
    CHECK(lead->write(0, data.data(), data.size()) == 0);
    const uint64_t reserved = process().board.slot(lead->state->slot).reserved.load(), block = reserved / kBlock + 20;
    CHECK(lead->set_eof((block + 20) * kBlock) == 0);
    int ready[2], go[2];
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int error = 0;
        char word = 0;
        StepFile* file = attach_step(lead->token(), true, lead->name(), &error);
        CHECK(file);
        const Mapping& mapping = file->state->mapping;
        CHECK(open_to(mapping, reserved) == 0);
        CHECK(write(ready[1], &word, 1) == 1 && read(go[0], &word, 1) == 1);
        CHECK(make_valid(mapping, block, reserved) == 0 && mapping.bytes[block * kBlock] == 0 &&
              mapping.bytes[block * kBlock + 100] == 7);
        close_step(file);
        _exit(0);
    }
    char word = 0;
    int status = -1;
    CHECK(read(ready[0], &word, 1) == 1);
    CHECK(lead->write(block * kBlock + 100, data.data(), data.size()) == 0 && write(go[1], &word, 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (const int end : {ready[0], ready[1], go[0], go[1]}) close(end);
    close_step(lead);
    close_step(open("growing.h5"));
}

uint64_t addresses() {
    FILE* const file = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0;
    CHECK(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    return pages * 4096;
}

// What says which bytes of a step were written takes as many addresses as the step asks for: a process may have few
// (ulimit -v).
void takes_few_addresses() {
    const std::vector<unsigned char> data(5000, 7);
    StepFile* file = create("few.h5");
    CHECK(file->write(0, data.data(), data.size()) == 0);
    const uint64_t before = addresses();
    for (uint64_t block = 1; block < 300; ++block)
        CHECK(file->write(block * kBlock + 100, data.data(), data.size()) == 0);
    CHECK(addresses() - before < 1 << 20);
    close_step(file);
    StepFile* reader = open("few.h5");
    const std::vector<unsigned char> bytes = all_of(reader);
    for (uint64_t at = kBlock; at < bytes.size(); ++at)
        CHECK(bytes[at] == (at % kBlock >= 100 && at % kBlock < 5100 ? 7 : 0));
    close_step(reader);
}

// A step larger than the cap fails, is never seen, and takes nothing with it.
void cap_holds() {
    std::vector<unsigned char> data(8 << 20, 3);
    StepFile* file = create("big.h5");
    int error = 0;
    for (int k = 0; k < 5 && !error; ++k)
        error = file->write(static_cast<uint64_t>(k) * data.size(), data.data(), data.size());
    CHECK(error == ENOSPC);
    close_step(file);
    uint64_t size, identity;
    int64_t when;
    CHECK(!lookup_step(named("big.h5"), &size, &identity, &when));
    StepFile* small = create("small.h5");
    CHECK(small->write(0, data.data(), data.size()) == 0);
    close_step(small);
    StepFile* reader = open("small.h5");
    CHECK(all_of(reader) == data);
    close_step(reader);
}

void looking_and_removing() {
    uint64_t size, identity;
    int64_t when;
    CHECK(!lookup_step(named("look.h5"), &size, &identity, &when));
    StepFile* file = create("look.h5");
    CHECK(file->write(0, "abcd", 4) == 0);
    CHECK(!lookup_step(named("look.h5"), &size, &identity, &when));
    close_step(file);
    CHECK(lookup_step(named("look.h5"), &size, &identity, &when) && size == 4);
    int error = 0;
    StepFile* look = open_step(named("look.h5"), Intent::look, 1, &error);
    CHECK(look && look->identity() == identity);
    close_step(look);
    StepFile* reader = open("look.h5");
    CHECK(reader->identity() == identity);
    close_step(reader);
    CHECK(remove_step(named("look.h5")) == 0);  // as its producer and as its reader
    CHECK(remove_step(named("never.h5")) == ENOENT);
    CHECK(!lookup_step(named("look.h5"), &size, &identity, &when));
    StepFile* given_up = create("look.h5");
    discard_step(given_up);
    CHECK(!lookup_step(named("look.h5"), &size, &identity, &when));
    Match match;
    CHECK(!match_name("other.txt", &match) && !match_name("", &match));

    // A name that does not fit is no quiet way to the disk.
    CHECK(!process().board.head().failure[0]);
    const std::string folders(kNameMax, 'a');
    CHECK(!match_name((folders + "/other.txt").c_str(), &match) && !process().board.head().failure[0]);
    CHECK(!match_name((folders + "/long.h5").c_str(), &match) &&
          strstr(process().board.head().failure, "shorter path"));
    process().board.head().failure[0] = 0;
}

// Renaming does not wait for the room that the old name takes, and the old name never comes.
void renaming() {
    for (int i = 0; i < 4; ++i) {
        StepFile* file = create("temporary.h5");
        CHECK(file->write(0, &i, sizeof(i)) == 0);
        close_step(file);
        StepFile* second = create("second.h5");
        close_step(second);
        CHECK(rename_step(named("temporary.h5"), named("final.h5")) == 0);
        CHECK(rename_step(named("temporary.h5"), named("final.h5")) == ENOENT);
        StepFile* reader = open("final.h5");
        CHECK(all_of(reader).size() == sizeof(i) && all_of(reader)[0] == i);
        close_step(reader);
    }
}

// A writer that the launcher has given up closes late: nothing becomes of its step, nor of the one that took its place.
void given_up_writer() {
    StepFile* late = create("late.h5");
    CHECK(late->write(0, "old", 3) == 0);
    {
        Board::Lock lock(process().board);
        queue::task_exited(process().board, 0, false);
        queue::task_started(process().board, 0);
    }
    std::vector<unsigned char> data(100000, 5);
    StepFile* file = create("late.h5");
    CHECK(file->write(0, data.data(), data.size()) == 0);
    close_step(late);
    close_step(file);
    StepFile* reader = open("late.h5");
    CHECK(all_of(reader) == data);
    close_step(reader);
    uint64_t size, identity;
    int64_t when;
    CHECK(remove_step(named("late.h5")) == 0 && !lookup_step(named("late.h5"), &size, &identity, &when));
}

// What a snapshot of an HDF5 file open for writing says about itself: superblocks of every version, behind user blocks.
void marking_closed() {
    // As HDF5 writes it for an empty file with libver latest; the checksum is Jenkins' lookup3 of what is before it.
    const std::vector<unsigned char> closed = {
        0x89, 0x48, 0x44, 0x46, 0xd,  0xa, 0x1a, 0xa, 3, 8, 8, 0, 0,    0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xb3, 0,   0,    0,   0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0x95, 0x55, 0x56, 0x8b};
    for (size_t user_block : {0, 512, 1024, 4096}) {
        std::vector<unsigned char> file(user_block, 'u');
        file.insert(file.end(), closed.begin(), closed.end());
        file.resize(file.size() + 300, 7);
        std::vector<unsigned char> open = file;
        open[user_block + 11] = 5;
        open[user_block + 44] ^= 0x55;
        mark_closed(open.data(), open.size());
        CHECK(open == file);
    }
    std::vector<unsigned char> other(5000, 'x');
    const std::vector<unsigned char> before = other;
    mark_closed(other.data(), other.size());
    mark_closed(other.data(), 10);
    CHECK(other == before);
}

// A reader that dies without a word does not keep its steps for ever.
void dead_reader() {
    for (int i = 0; i < kSpareSlots + 4; ++i) {
        const std::string name = "dead" + std::to_string(i) + ".h5";
        StepFile* const file = create(name.c_str());
        CHECK(file->write(0, "x", 1) == 0);
        close_step(file);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            open(name.c_str());
            _exit(0);
        }
        CHECK(waitpid(child, nullptr, 0) == child);
    }
}

}  // namespace

int main() {
    alarm(500);
    test::Scratch scratch;
    test::join_loop(scratch, "*.h5", 2, 30 << 20);
    CHECK(context().active);
    most_memory();
    takes_few_addresses();
    looking_and_removing();
    renaming();
    random_against_model();
    stream_of_steps();
    many_writers();
    pieces_of_all_lengths();
    looks_while_the_file_grows();
    cap_holds();
    given_up_writer();
    dead_reader();
    marking_closed();
    puts("store: ok");
}
