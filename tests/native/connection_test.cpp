// What crosses a connection is what was sent, in pieces of whatever sizes; whatever bit is damaged on the way, nobody
// takes what has come for what was sent. WILKINS_TEST_SEED: another draw.
#include "far/connection.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "pair.hpp"

using namespace wilkins;
using far::Checksum;
using far::Connection;
using far::Sealing;

namespace {

std::mt19937_64 chance;

uint64_t below(uint64_t limit) { return chance() % limit; }

std::vector<char> any_bytes(size_t count) {
    std::vector<char> bytes(count);
    for (char& byte : bytes) byte = static_cast<char>(chance());
    return bytes;
}

// A CRC-32C by its definition, bit by bit.
uint32_t crc(const std::vector<unsigned char>& bytes) {
    uint32_t value = ~0u;
    for (const unsigned char byte : bytes) {
        value ^= byte;
        for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78 : 0);
    }
    return ~value;
}

void checksums_are_those_of_the_standard() {
    const std::string nine = "123456789";
    CHECK(crc({nine.begin(), nine.end()}) == 0xe3069283);  // RFC 3720, and the catalogue of CRCs
    for (int round = 0; round < 300; ++round) {
        const std::vector<char> bytes = any_bytes(below(round % 30 ? 2000 : 300'000));
        const size_t most = round % 3 ? 600 : 200'000;
        Checksum sum, by_words, by_tables, by_parts;
        for (size_t at = 0; at < bytes.size();) {
            const size_t count = std::min<size_t>(bytes.size() - at, 1 + below(most));
            sum.add(bytes.data() + at, count);
            by_words.add_by_words(bytes.data() + at, count);
            by_tables.add_by_tables(bytes.data() + at, count);
            Checksum part;
            part.add(bytes.data() + at, count);
            by_parts.add_known(part.value(), count);
            at += count;
        }
        CHECK(sum.value() == crc({bytes.begin(), bytes.end()}));
        CHECK(by_words.value() == sum.value() && by_tables.value() == sum.value());
        CHECK(by_parts.value() == sum.value());
    }
}

size_t any_size() {
    switch (below(4)) {
        case 0: return below(100);
        case 1: return below(1 << 17);
        case 2: return (size_t{1} << (14 + below(7))) + below(3) - 1;
        default: return below(5 << 20) >> below(20);
    }
}

// Pieces of memory that together are so long.
Pieces cut(std::vector<char>& bytes) {
    Pieces pieces;
    const size_t most = size_t{1} << below(24);
    for (size_t at = 0; at < bytes.size();) {
        const size_t count = std::min<size_t>(bytes.size() - at, 1 + below(most));
        pieces.add(bytes.data() + at, count);
        at += count;
    }
    return pieces;
}

// Of a connection whose frames are sealed: what one side has, or the other. nullptr: the layer was built without that.
std::shared_ptr<Sealing> sealing(bool server) {
    const std::string one(cipher::kKey, 'a'), other(cipher::kKey, 'b');
    int error = 0;
    std::shared_ptr<Sealing> made = Sealing::make(server ? other + one : one + other, &error);
    CHECK(made || error == ENOPKG);
    return made;
}

void all_comes_as_it_was_sent(bool sealed) {
    for (int round = 0; round < 40; ++round) {
        const Pair pair;
        std::vector<std::pair<bool, std::vector<char>>> messages;
        for (uint64_t left = 1 + below(8); left > 0; --left) messages.emplace_back(below(2), any_bytes(any_size()));
        std::vector<Pieces> sent, received;
        std::vector<std::vector<char>> came;
        for (auto& [words, bytes] : messages) {
            sent.push_back(cut(bytes));
            came.emplace_back(bytes.size());
        }
        for (std::vector<char>& bytes : came) received.push_back(cut(bytes));
        std::thread sender([&] {
            Connection connection(pair.ends[0]);
            if (sealed) connection.seal_with(sealing(false));
            for (size_t k = 0; k < messages.size(); ++k) {
                const bool more = k + 1 < messages.size();
                CHECK((messages[k].first ? connection.send_words(std::move(sent[k]), more)
                                         : connection.send_bytes(std::move(sent[k]), more)) == 0);
            }
            shutdown(pair.ends[0], SHUT_WR);
        });
        Connection connection(pair.ends[1]);
        if (sealed) connection.seal_with(sealing(true));
        for (size_t k = 0; k < messages.size(); ++k) {
            CHECK(connection.receive(std::move(received[k])) == 0);
            CHECK(came[k] == messages[k].second);
        }
        char none;
        CHECK(connection.receive(&none, 1) == ECONNRESET);
        sender.join();
    }
}

std::vector<char> on_the_wire(std::vector<char> bytes, bool words, const std::shared_ptr<Sealing>& sealing = nullptr) {
    const Pair pair;
    std::thread sender([&] {
        Connection connection(pair.ends[0]);
        connection.seal_with(sealing);
        const Pieces all = Connection::one_piece(bytes.data(), bytes.size());
        CHECK((words ? connection.send_words(all) : connection.send_bytes(all)) == 0);
        shutdown(pair.ends[0], SHUT_WR);
    });
    std::vector<char> seen, part(1 << 16);
    for (ssize_t count; (count = recv(pair.ends[1], part.data(), part.size(), 0)) > 0;)
        seen.insert(seen.end(), part.begin(), part.begin() + count);
    sender.join();
    return seen;
}

void damage_does_not_pass(bool sealed) {
    for (int round = 0; round < 5; ++round) {
        const bool words = below(2) == 0;
        const std::vector<char> bytes = any_bytes(words || below(2) ? 1 + below(300) : 70'000 + below(80'000));
        const std::vector<char> wire = on_the_wire(bytes, words, sealed ? sealing(false) : nullptr);
        const uint64_t bits = 8 * wire.size();
        const bool all = bits < 4000;  // every bit, or some
        for (uint64_t k = 0; k < (all ? bits : 400); ++k) {
            std::vector<char> damaged = wire;
            const uint64_t bit = all ? k : below(2) ? below(bits) : below(8 * sizeof(far::FrameHead));
            for (uint64_t burst = below(2) ? 1 : 1 + below(32), n = 0; n < burst && bit + n < bits; ++n)
                if (n == 0 || below(2)) {
                    char& byte = damaged[(bit + n) / 8];
                    byte = static_cast<char>(byte ^ 1 << (bit + n) % 8);
                }
            const Pair pair;
            std::thread line([&] {
                for (size_t at = 0; at < damaged.size();) {
                    const ssize_t count = send(pair.ends[0], damaged.data() + at, damaged.size() - at, MSG_NOSIGNAL);
                    if (count <= 0) break;
                    at += static_cast<size_t>(count);
                }
                shutdown(pair.ends[0], SHUT_WR);
            });
            std::vector<char> came(bytes.size());
            {
                Connection connection(pair.ends[1]);
                if (sealed) connection.seal_with(sealing(true));
                CHECK(connection.receive(came.data(), came.size()) != 0);
                CHECK(!sealed || bytes.size() < 8 || came != bytes);
            }
            shutdown(pair.ends[1], SHUT_RDWR);
            line.join();
        }
    }
}

std::vector<uint32_t> sums_of(const std::vector<char>& bytes) {
    std::vector<uint32_t> sums;
    for (size_t at = 0; at < bytes.size(); at += Connection::kSummed) {
        Checksum sum;
        sum.add(bytes.data() + at, std::min(Connection::kSummed, bytes.size() - at));
        sums.push_back(sum.value());
    }
    return sums;
}

// What is sent with checksums that were made before is what had them, or is found out: at the frame that it is in.
void known_checksums_are_those_of_the_bytes() {
    for (int round = 0; round < 20; ++round) {
        std::vector<char> bytes = any_bytes(any_size() + 1);
        const std::vector<uint32_t> sums = sums_of(bytes);
        const size_t changed = below(bytes.size());
        const bool damaged = below(2) != 0;
        if (damaged) bytes[changed] ^= 1;
        const Pair pair;
        std::thread sender([&] {
            Connection connection(pair.ends[0]);
            CHECK(connection.send_summed(Connection::one_piece(bytes.data(), bytes.size()), sums) == 0);
        });
        Connection connection(pair.ends[1]);
        std::vector<char> came(bytes.size());
        CHECK(connection.receive(came.data(), came.size()) == (damaged ? EBADMSG : 0));
        CHECK(came == bytes && connection.damaged().size() == (damaged ? 1 : 0));
        if (damaged) {
            const ByteRange range = connection.damaged()[0];
            CHECK(range.begin <= changed && changed < range.end);
            CHECK(range.end - range.begin <= Connection::kMostBytes);
        }
        sender.join();
    }
}

// Behind a head that is none, nobody knows what comes: no part of it is said to be all that was damaged.
void a_damaged_head_leaves_nothing_to_ask_for() {
    std::vector<char> wire = on_the_wire(any_bytes(900'000), false);
    wire[1000] ^= 1;
    wire[2 * (sizeof(far::FrameHead) + Connection::kMostBytes)] ^= 1;
    const Pair pair;
    std::thread line([&] {
        for (size_t at = 0; at < wire.size();) {
            const ssize_t count = send(pair.ends[0], wire.data() + at, wire.size() - at, MSG_NOSIGNAL);
            if (count <= 0) break;
            at += static_cast<size_t>(count);
        }
    });
    Connection connection(pair.ends[1]);
    std::vector<char> came(900'000);
    CHECK(connection.receive(came.data(), came.size()) == EBADMSG);
    CHECK(connection.damaged().empty());
    shutdown(pair.ends[1], SHUT_RDWR);
    line.join();
}

// After bytes of a step that were damaged, what follows is not.
void goes_on_behind_damaged_bytes(bool sealed) {
    const std::shared_ptr<Sealing> sends = sealed ? sealing(false) : nullptr;
    std::vector<char> wire = on_the_wire(any_bytes(3'000'000), false, sends);
    wire[2'000'000] ^= 1;
    const std::vector<char> next = on_the_wire({'x'}, true, sends);
    wire.insert(wire.end(), next.begin(), next.end());
    const Pair pair;
    std::thread line([&] {
        for (size_t at = 0; at < wire.size();) {
            const ssize_t count = send(pair.ends[0], wire.data() + at, wire.size() - at, MSG_NOSIGNAL);
            CHECK(count > 0);
            at += static_cast<size_t>(count);
        }
    });
    Connection connection(pair.ends[1]);
    if (sealed) connection.seal_with(sealing(true));
    std::vector<char> came(3'000'000);
    char byte = 0;
    CHECK(connection.receive(came.data(), came.size()) == EBADMSG);
    CHECK(connection.receive(&byte, 1) == 0 && byte == 'x');
    line.join();
}

// What comes to the receiver of messages of `length` bytes: for each, whether it is taken for one that was sent.
std::vector<bool> taken(const std::vector<std::vector<char>>& wires, size_t length) {
    const Pair pair;
    for (const std::vector<char>& wire : wires)
        CHECK(send(pair.ends[0], wire.data(), wire.size(), 0) == static_cast<ssize_t>(wire.size()));
    shutdown(pair.ends[0], SHUT_WR);
    Connection connection(pair.ends[1]);
    connection.seal_with(sealing(true));
    std::vector<bool> taken;
    taken.reserve(wires.size());
    std::vector<char> came(length);
    for (size_t k = 0; k < wires.size(); ++k) taken.push_back(connection.receive(came.data(), came.size()) == 0);
    return taken;
}

// Whoever has recorded sealed frames can send them at no other place, and nothing of their bytes can be seen.
void sealed_frames_have_one_place() {
    const std::shared_ptr<Sealing> sends = sealing(false);
    const std::vector<char> bytes(1000, 'x');
    std::vector<std::vector<char>> wires;
    wires.reserve(3);
    for (int k = 0; k < 3; ++k) wires.push_back(on_the_wire(bytes, true, sends));
    for (const std::vector<char>& wire : wires) {
        CHECK(std::search_n(wire.begin(), wire.end(), 4, 'x') == wire.end());
        CHECK(wire.size() == bytes.size() + sizeof(far::FrameHead) + 4 + cipher::kTag);
    }
    CHECK(wires[0] != wires[1]);
    if (const pid_t child = fork(); child != 0) {
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    } else {  // it has the same keys, and would use the nonces of its parent once more
        const Pair pair;
        Connection connection(pair.ends[0]);
        connection.seal_with(sends);
        _exit(connection.send_words(Connection::one_piece(bytes.data(), bytes.size())) == EPROTO ? 0 : 1);
    }
    using Taken = std::vector<bool>;
    CHECK(taken(wires, bytes.size()) == Taken({true, true, true}));
    CHECK(taken({wires[0], wires[0]}, bytes.size()) == Taken({true, false}));                   // again
    CHECK(taken({wires[1], wires[2]}, bytes.size()) == Taken({false, false}));                  // without one
    CHECK(taken({wires[1], wires[0], wires[2]}, bytes.size()) == Taken({false, false, true}));  // turned
    CHECK(taken({on_the_wire(bytes, true, sealing(true))}, bytes.size()) == Taken({false}));    // its own, sent back
    CHECK(taken({on_the_wire(bytes, true)}, bytes.size()) == Taken({false}));                   // in clear
}

}  // namespace

int main() {
    const char* const seed = getenv("WILKINS_TEST_SEED");
    const uint64_t drawn = seed ? strtoull(seed, nullptr, 10) : std::random_device{}();
    chance.seed(drawn);
    printf("again with WILKINS_TEST_SEED=%llu\n", static_cast<unsigned long long>(drawn));
    fflush(stdout);
    checksums_are_those_of_the_standard();
    for (const bool sealed : {false, sealing(false) != nullptr}) {
        all_comes_as_it_was_sent(sealed);
        damage_does_not_pass(sealed);
        goes_on_behind_damaged_bytes(sealed);
        if (sealed) sealed_frames_have_one_place();
    }
    known_checksums_are_those_of_the_bytes();
    a_damaged_head_leaves_nothing_to_ask_for();
    return 0;
}
