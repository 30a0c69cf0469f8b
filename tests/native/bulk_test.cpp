// What crosses in messages and beside them is what was sent, in pieces of whatever lengths; what is damaged on the way
// is told apart. A queue of the process stands for UCX. WILKINS_TEST_SEED: another draw.
#include "far/bulk.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "far/checksum.hpp"
#include "pair.hpp"

using namespace wilkins;
using far::Connection;
using far::Ucx;

namespace {

std::mt19937_64 chance;

uint64_t below(uint64_t limit) { return chance() % limit; }

// Messages on their way, from one half to the other.
struct Line {
    std::mutex mutex;
    std::condition_variable moved;
    std::deque<std::vector<char>> messages;
    size_t damages = SIZE_MAX;  // the message of which a bit is changed
    size_t count = 0;
    bool broken = false;
};

class Half final : public Ucx {
public:
    explicit Half(Line& line) : line_(line) {}
    std::string address() const override { return {}; }
    int join(const std::string&, uint64_t, int, std::string*) override { return 0; }
    int send(const void* bytes, size_t length) override {
        const auto* const from = static_cast<const char*>(bytes);
        std::vector<char> message(from, from + length);
        const std::lock_guard<std::mutex> guard(line_.mutex);
        if (line_.broken) return ECONNRESET;
        if (line_.count++ == line_.damages) message[length / 2] ^= 1;
        line_.messages.push_back(std::move(message));
        line_.moved.notify_all();
        ++sent_;
        return 0;
    }
    int receive(void* bytes, size_t length) override {
        expected_.emplace_back(bytes, length);
        return 0;
    }
    size_t under_way() const override { return sent_ + expected_.size(); }
    void move_on() override {}
    int wait(const Over&) override {
        if (sent_ > 0) {
            --sent_;
            return 0;
        }
        std::unique_lock<std::mutex> lock(line_.mutex);
        line_.moved.wait(lock, [&] { return line_.broken || !line_.messages.empty(); });
        if (line_.broken) return ECONNRESET;
        const std::vector<char> message = std::move(line_.messages.front());
        line_.messages.pop_front();
        const auto [bytes, length] = expected_.front();
        expected_.pop_front();
        if (message.size() != length) return EPROTO;
        memcpy(bytes, message.data(), length);
        return 0;
    }
    int flush(const Over&) override { return 0; }
    void give_up() override {
        const std::lock_guard<std::mutex> guard(line_.mutex);
        line_.broken = true;
        line_.moved.notify_all();
        sent_ = 0;
        expected_.clear();
    }

private:
    Line& line_;
    size_t sent_ = 0;
    std::deque<std::pair<void*, size_t>> expected_;
};

std::vector<char> any_bytes(size_t count) {
    std::vector<char> bytes(count);
    for (char& byte : bytes) byte = static_cast<char>(chance());
    return bytes;
}

std::vector<size_t> any_lengths() {
    std::vector<size_t> lengths;
    for (uint64_t left = 1 + below(9); left > 0; --left)
        lengths.push_back(1 + (below(2) ? below(6000) : below(3 << 20)));
    return lengths;
}

Pieces cut(std::vector<char>& bytes, const std::vector<size_t>& lengths) {
    Pieces pieces;
    size_t at = 0;
    for (const size_t length : lengths) {
        pieces.add(bytes.data() + at, length);
        at += length;
    }
    return pieces;
}

void all_comes_as_it_was_sent() {
    for (int round = 0; round < 60; ++round) {
        const std::vector<size_t> lengths = any_lengths();
        size_t size = 0;
        for (const size_t length : lengths) size += length;
        std::vector<char> bytes = any_bytes(size), came(size);
        if (!far::is_bulk(cut(bytes, lengths))) continue;
        const Pair pair;
        Line line;
        const bool damaged = below(3) == 0;
        if (damaged) line.damages = below(3);
        uint64_t ready = 0, told = 0;  // nothing is sent of what is not there yet, and nothing is told of twice
        std::thread sender([&] {
            Half ucx(line);
            Connection words(pair.ends[0]);
            const auto becomes_ready = [&](uint64_t end, bool waits) {
                CHECK(end >= ready && end <= size);
                if (!waits && below(2)) return EAGAIN;
                CHECK(!waits || ucx.under_way() == 0);
                ready = end;
                return 0;
            };
            CHECK(far::send_bulk(words, ucx, cut(bytes, lengths), nullptr, {}, becomes_ready) == 0);
            CHECK(words.send_words(Connection::one_piece("end", 4)) == 0);
        });
        Half ucx(line);
        Connection words(pair.ends[1]);
        std::vector<ByteRange> ranges;
        const auto comes = [&](uint64_t end) {
            CHECK(end > told && end <= size);
            told = end;
        };
        const int error = far::receive_bulk(words, ucx, cut(came, lengths), {}, &ranges, comes);
        for (const ByteRange& range : ranges) CHECK(range.begin >= told);
        CHECK(error == (came == bytes ? 0 : EBADMSG));
        CHECK(damaged || error == 0);
        CHECK(ranges.size() == (error ? 1 : 0));
        for (size_t at = 0; at < size; ++at)
            if (came[at] != bytes[at]) CHECK(ranges[0].begin <= at && at < ranges[0].end);
        char end[4];
        CHECK(words.receive(end, sizeof(end)) == 0 && strcmp(end, "end") == 0);
        sender.join();
    }
}

void known_checksums_are_those_of_the_bytes() {
    for (int round = 0; round < 20; ++round) {
        std::vector<char> bytes = any_bytes((1 << 19) + below(3 << 20)), came(bytes.size());
        std::vector<uint32_t> sums;
        for (size_t at = 0; at < bytes.size(); at += Connection::kSummed) {
            far::Checksum sum;
            sum.add(bytes.data() + at, std::min(Connection::kSummed, bytes.size() - at));
            sums.push_back(sum.value());
        }
        const size_t changed = below(bytes.size());
        const bool damaged = below(2) != 0;
        if (damaged) bytes[changed] ^= 1;
        const Pair pair;
        Line line;
        std::thread sender([&] {
            Half ucx(line);
            Connection words(pair.ends[0]);
            CHECK(far::send_bulk(words, ucx, Connection::one_piece(bytes.data(), bytes.size()), &sums, {}) == 0);
        });
        Half ucx(line);
        Connection words(pair.ends[1]);
        std::vector<ByteRange> ranges;
        const int error = far::receive_bulk(words, ucx, Connection::one_piece(came.data(), came.size()), {}, &ranges);
        CHECK(error == (damaged ? EBADMSG : 0));
        CHECK(!damaged || (ranges.size() == 1 && ranges[0].begin <= changed && changed < ranges[0].end));
        sender.join();
    }
}

// A half that leaves ends what the other one waits for, and what may still be written is given up first.
void a_half_that_leaves_is_noticed() {
    std::vector<char> came(1 << 20);
    const Pair pair;
    Line line;
    line.broken = true;
    Half ucx(line);
    Connection words(pair.ends[1]);
    std::vector<ByteRange> ranges = {{1, 2}};
    CHECK(far::receive_bulk(words, ucx, Connection::one_piece(came.data(), came.size()), {}, &ranges) == ECONNRESET);
    CHECK(ranges.empty() && ucx.under_way() == 0);
}

}  // namespace

int main() {
    const char* const seed = getenv("WILKINS_TEST_SEED");
    const uint64_t drawn = seed ? strtoull(seed, nullptr, 10) : std::random_device{}();
    chance.seed(drawn);
    printf("again with WILKINS_TEST_SEED=%llu\n", static_cast<unsigned long long>(drawn));
    fflush(stdout);
    all_comes_as_it_was_sent();
    known_checksums_are_those_of_the_bytes();
    a_half_that_leaves_is_noticed();
    return 0;
}
