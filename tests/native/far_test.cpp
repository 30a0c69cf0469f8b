// Whatever a process says that knows the run's key, the server of files goes on: hellos and requests drawn by chance,
// many of them nearly right. It serves many at once, by no more threads than have something to do. WILKINS_FUZZ_HELLOS:
// how many connections (default 10,000), WILKINS_TEST_SEED: another draw.
#include "board/process.hpp"
#include "base/raw.hpp"
#include "check.hpp"
#include "far/far_wire.hpp"
#include "far/handshake.hpp"
#include "far/serving.hpp"
#include "steps/creating.hpp"
#include "steps/kept_here.hpp"
#include "store/far_server.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace wilkins;

namespace {

constexpr int kPatience = 60'000;  // ms
constexpr size_t kMostTaken = 1 << 16;
constexpr uint64_t kSize = 100'000;

std::mt19937_64 chance;

uint64_t below(uint64_t limit) { return chance() % limit; }

StepFile* open(const char* name, Intent intent) {
    Match match;
    int error = 0;
    CHECK(match_name(name, &match));
    StepFile* const file = open_step(match, intent, 1, &error);
    CHECK(file && error == 0);
    return file;
}

// Mostly a place or a length within the step; else one at a border of what numbers can say. None for which the step
// would get gigabytes: a rank may write that far into a file.
uint64_t number() {
    switch (below(8)) {
        case 0: return chance();
        case 1: return UINT64_MAX - below(100);
        case 2: return uint64_t{1} << (below(2) ? below(22) : 48 + below(16));
        case 3: return below(kSize) / 64 * 64;
        default: return below(2 * kSize);
    }
}

far::Hello hello(const std::vector<StepToken>& known) {
    far::Hello made{};
    made.token = known[below(known.size())];
    if (below(3) == 0) made.token.slot = static_cast<int32_t>(below(4) ? below(64) - 8 : chance());
    if (below(8) == 0) made.token.arena = static_cast<int32_t>(chance());
    if (below(3) == 0) made.token.stamp = below(2) ? below(8) : chance();
    made.use = static_cast<Use>(below(8) ? below(6) : chance());
    const char* const names[] = {"far.h5", "other.h5", "", "/", "far.h5/x", ".."};
    strcpy(made.name, names[below(std::size(names))]);
    if (below(4) == 0) memset(made.name, 'x', sizeof(made.name));
    const char* const addresses[] = {"", "127.0.0.1:1", "../../../etc/x:1", "nobody"};
    strcpy(made.address, addresses[below(std::size(addresses))]);
    if (below(4) == 0) memset(made.address, 'y', sizeof(made.address));
    return made;
}

void add(std::string* text, const void* bytes, size_t count) { text->append(static_cast<const char*>(bytes), count); }

std::string conversation(const std::vector<StepToken>& known) {
    std::string text;
    const far::Hello first = hello(known);
    add(&text, &first, sizeof(first));
    for (uint64_t left = below(6); left > 0; --left) {
        const far::Request request = {static_cast<uint32_t>(below(16) ? below(far::leave + 1) : chance()),
                                      static_cast<int32_t>(below(2) ? below(3) : chance()), number(), number()};
        add(&text, &request, sizeof(request));
        if (request.what == far::write || request.what == far::gather)
            text.resize(text.size() + below(4096), static_cast<char>(below(256)));
    }
    if (below(4) == 0) text.resize(below(text.size() + 1));
    for (uint64_t left = below(4) ? 0 : below(16); left > 0 && !text.empty(); --left)
        text[below(std::min(text.size(), sizeof(far::Hello)))] = static_cast<char>(chance());
    return text;
}

// Most of what is said comes in frames that are right.
std::string framed(const std::string& text) {
    if (below(8) == 0) return text;
    std::string all;
    for (size_t at = 0; at < text.size();) {
        const size_t length = std::min<size_t>(text.size() - at, 1 + below(below(2) ? 5000 : 1 << 18));
        far::Checksum sum;
        sum.add(text.data() + at, length);
        const far::FrameHead head = {static_cast<uint32_t>(length), ~static_cast<uint32_t>(length), sum.value()};
        add(&all, &head, sizeof(head));
        all.append(text, at, length);
        at += length;
    }
    if (below(8) == 0 && !all.empty()) {
        char& byte = all[below(all.size())];
        byte = static_cast<char>(byte ^ 1 << below(8));
    }
    return all;
}

// Says it all, hears some of the answers, and leaves. The server ends the connection, whatever it was.
void talk(const std::string& text) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    serve_far_file(ends[1], nullptr, nullptr);
    size_t said = 0, heard = 0;
    char answers[4096];
    for (bool over = false; !over;) {
        pollfd one = {ends[0], static_cast<short>(said < text.size() ? POLLIN | POLLOUT : POLLIN), 0};
        if (said == text.size()) shutdown(ends[0], SHUT_WR);
        CHECK(poll(&one, 1, kPatience) > 0);
        if (one.revents & POLLOUT) {
            const ssize_t count = send(ends[0], text.data() + said, text.size() - said, MSG_NOSIGNAL | MSG_DONTWAIT);
            said = count > 0 ? said + static_cast<size_t>(count) : text.size();
        }
        if (one.revents & (POLLIN | POLLHUP | POLLERR)) {
            const ssize_t count = recv(ends[0], answers, sizeof(answers), MSG_DONTWAIT);
            if (count > 0) heard += static_cast<size_t>(count);
            over = heard > kMostTaken || count == 0 || (count < 0 && errno != EAGAIN);
        }
    }
    raw::close(ends[0]);
}

template <class Come>
void await(Come come) {
    for (int waited = 0; !come(); ++waited) {
        CHECK(waited < kPatience);
        usleep(1000);
    }
}

// A rank on another host.
class Rank {
public:
    Rank() {
        int ends[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        CHECK(serve_far_file(ends[1], nullptr, nullptr) == 0);
        wire_ = ends[0];
        connection_ = std::make_unique<far::Connection>(wire_);
    }
    ~Rank() { raw::close(wire_); }
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;

    void open(const StepToken& token, Use use) {
        far::Hello hello{};
        hello.token = token;
        hello.use = use;
        far::Opened opened{};
        send(&hello, sizeof(hello));
        receive(&opened, sizeof(opened));
        CHECK(opened.error == 0);
    }
    void let_go(const StepToken& token) { send(&token, sizeof(token)); }
    void ask(far::What what, short kind = 0, uint64_t place = 0, uint64_t length = 0) {
        const far::Request request = {what, kind, place, length};
        send(&request, sizeof(request));
    }
    bool is_answered(int milliseconds) const { return connection_->has_come(milliseconds); }
    void take_answer() {
        far::Answer answer{};
        receive(&answer, sizeof(answer));
        CHECK(answer.error == 0);
    }
    void receive(void* to, size_t length) {
        CHECK(connection_->has_come(kPatience));
        CHECK(connection_->receive(to, length) == 0);
    }

private:
    void send(const void* words, size_t length) {
        CHECK(connection_->send_words(far::Connection::one_piece(words, length)) == 0);
    }
    int wire_;
    std::unique_ptr<far::Connection> connection_;
};

// Ranks that wait for a lock have a thread each, as many as they are; those that are at rest share a few.
void locks_are_waited_for_by_as_many_as_want_them(const StepToken& written) {
    constexpr size_t kRanks = 200;
    std::vector<std::unique_ptr<Rank>> ranks(kRanks);
    for (auto& rank : ranks) (rank = std::make_unique<Rank>())->open(written, Use::write);
    CHECK(far::Serving::here().connections() == kRanks);
    CHECK(far::Serving::here().threads() < kRanks / 2);
    for (auto& rank : ranks) rank->ask(far::lock, F_WRLCK);
    for (size_t left = kRanks; left > 0; --left) {
        size_t has_it = kRanks;
        await([&] {
            for (size_t k = 0; k < kRanks && has_it == kRanks; ++k)
                if (ranks[k] && ranks[k]->is_answered(0)) has_it = k;
            return has_it < kRanks;
        });
        ranks[has_it]->take_answer();
        for (const auto& other : ranks) CHECK(!other || !other->is_answered(0));
        ranks[has_it]->ask(far::lock, F_UNLCK);
        ranks[has_it]->take_answer();
        ranks[has_it]->ask(far::close);
        ranks[has_it]->take_answer();
        ranks[has_it].reset();
    }
    await([] { return far::Serving::here().connections() == 0; });
}

// All ask at once, again and again; each gets what it has asked for.
void ranks_at_rest_are_served_again(const StepToken& published, const std::vector<unsigned char>& bytes) {
    constexpr size_t kRanks = 300, kPiece = 100;
    std::vector<std::unique_ptr<Rank>> ranks(kRanks);
    for (auto& rank : ranks) (rank = std::make_unique<Rank>())->open(published, Use::bring);
    for (int round = 0; round < 5; ++round) {
        for (size_t k = 0; k < kRanks; ++k) ranks[k]->ask(far::read, 0, k * kPiece, kPiece);
        for (size_t k = 0; k < kRanks; ++k) {
            unsigned char piece[kPiece];
            ranks[k]->take_answer();
            ranks[k]->receive(piece, kPiece);
            CHECK(memcmp(piece, bytes.data() + k * kPiece, kPiece) == 0);
        }
        usleep(10'000);  // all come to rest
    }
    CHECK(far::Serving::here().threads() < kRanks / 2);
}

uint32_t kept_for(const StepToken& token) {
    const Board& board = process().board;
    Board::Lock lock(board);
    return board.slot(token.slot).kept_for;
}

// A relay's sender keeps what it has sent in part until the other half lets go of that, or has left.
void steps_that_were_sent_in_part_stay(const StepFile& one, const StepFile& other) {
    const StepToken first = one.token(), second = other.token();
    CHECK(KeptHere::all().add(one) == 0 && KeptHere::all().add(other) == 0);
    auto receiver = std::make_unique<Rank>();
    receiver->open({-1, -1, 0}, Use::keep);
    receiver->let_go({first.slot, first.arena, first.stamp + 1000});  // another step that was in its slot
    receiver->let_go(second);
    await([&] { return kept_for(second) == 0; });
    CHECK(kept_for(first) == 1);

    const Board& board = process().board;
    PortRecord& port = board.port(board.source(board.slot(first.slot).source).port);
    char pressed = 1;
    CHECK(!receiver->is_answered(3 * far::kPause));
    port.pressed.fetch_add(1);  // the host before has said it
    receiver->receive(&pressed, 1);
    {
        Board::Lock lock(board);
        Wait wait(process(), WaitFor::memory, board.index(port), "far.h5");
        wait.tell(lock);
        lock.release();
        for (int times = 0; times < 3; ++times) receiver->receive(&pressed, 1);
        lock.acquire();
    }
    CHECK(kept_for(first) == 1);
    receiver.reset();
    await([&] { return kept_for(first) == 0; });
    CHECK(KeptHere::all().add(one) == ECONNRESET && kept_for(first) == 0);
}

// RFC 4231, test cases 2, 3 and 6.
void proofs_are_those_of_the_standard() {
    const auto hex = [](const handshake::Bytes32& bytes) {
        std::string text;
        char digits[3];
        for (const unsigned char byte : bytes) text += (snprintf(digits, sizeof(digits), "%02x", byte), digits);
        return text;
    };
    CHECK(hex(handshake::hmac("Jefe", "what do ya want for nothing?")) ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    CHECK(hex(handshake::hmac(std::string(20, '\xaa'), std::string(50, '\xdd'))) ==
          "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    CHECK(hex(handshake::hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace

int main() {
    proofs_are_those_of_the_standard();
    const test::Scratch scratch;
    test::join_loop(scratch, "*.h5", 100, 0);
    const char* const seed = getenv("WILKINS_TEST_SEED");
    const char* const count = getenv("WILKINS_FUZZ_HELLOS");
    const uint64_t drawn = seed ? strtoull(seed, nullptr, 10) : static_cast<uint64_t>(time(nullptr));
    chance.seed(drawn);
    printf("again with WILKINS_TEST_SEED=%llu\n", static_cast<unsigned long long>(drawn));
    fflush(stdout);

    std::vector<unsigned char> bytes(kSize);
    for (uint64_t k = 0; k < kSize; ++k) bytes[k] = static_cast<unsigned char>(k % 251);
    StepFile* const published = open("far.h5", Intent::create);
    const StepToken first = published->token();
    CHECK(published->write(0, bytes.data(), bytes.size()) == 0);
    close_step(published);
    StepFile* const read = open("far.h5", Intent::read);
    close_step(open("second.h5", Intent::create));
    StepFile* const read_second = open("second.h5", Intent::read);
    StepFile* const written = open("other.h5", Intent::create);
    CHECK(written->write(0, bytes.data(), bytes.size()) == 0);

    steps_that_were_sent_in_part_stay(*read, *read_second);
    close_step(read_second);
    ranks_at_rest_are_served_again(first, bytes);
    locks_are_waited_for_by_as_many_as_want_them(written->token());
    for (long left = count ? atol(count) : 10'000; left > 0; --left)
        talk(framed(conversation({first, written->token(), {-1, -1, 0}})));
    await([] { return far::Serving::here().connections() == 0; });
    std::vector<unsigned char> seen(kSize);
    read->read(0, seen.data(), seen.size());
    CHECK(read->settle() == 0 && seen == bytes);  // a published step is what it was
    close_step(read);
    close_step(written);
    return 0;
}
