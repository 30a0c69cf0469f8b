// Which bytes are messages, and their checksums: each host reads its memory for them while UCX moves other messages.
#include "far/bulk.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/fault.hpp"
#include "far/checksum.hpp"

namespace wilkins::far {

namespace {

// A shorter piece costs less by TCP than a message's rendezvous. The longest message, and how many are under way: a sum
// is computed of one while others cross. Checksums that wait to be read have to fit into the socket's buffers.
constexpr size_t kUnderWay = 4;
#ifdef WILKINS_HOOKS
constexpr uint64_t kLeast = 1 << 12, kMost = 1 << 18;
constexpr size_t kBatch = 6;
#else
constexpr uint64_t kLeast = 1 << 18, kMost = 4 << 20;
constexpr size_t kBatch = 8;
#endif

// Bytes at their place in what crosses.
struct Section {
    unsigned char* bytes;
    uint64_t at;
    uint64_t length;
};

struct Sections {
    std::vector<Section> messages;
    std::vector<Section> small;

    explicit Sections(Pieces pieces) {
        for (uint64_t at = 0; !pieces.done();) {
            const iovec piece = pieces.first();
            auto* const bytes = static_cast<unsigned char*>(piece.iov_base);
            if (piece.iov_len < kLeast) small.push_back({bytes, at, piece.iov_len});
            else
                for (uint64_t done = 0; done < piece.iov_len; done += kMost)
                    messages.push_back({bytes + done, at + done, std::min<uint64_t>(kMost, piece.iov_len - done)});
            at += piece.iov_len;
            pieces.advance(piece.iov_len);
        }
    }

    Pieces small_pieces() const {
        Pieces pieces;
        for (const Section& section : small) pieces.add(section.bytes, section.length);
        return pieces;
    }

    // Where in what crosses these ranges of the small sections are.
    void place(const std::vector<ByteRange>& ranges, std::vector<ByteRange>* out) const {
        uint64_t before = 0;
        for (const Section& section : small) {
            for (const ByteRange& range : ranges) {
                const uint64_t begin = std::max(range.begin, before);
                const uint64_t end = std::min(range.end, before + section.length);
                if (begin < end) out->push_back({section.at + begin - before, section.at + end - before});
            }
            before += section.length;
        }
    }
};

// Calls for each block of which a checksum crosses.
template <class Call>
void for_blocks(const Section& section, Call call) {
    for (uint64_t done = 0; done < section.length; done += Connection::kMostBytes)
        call(section.bytes + done, section.at + done,
             std::min<uint64_t>(Connection::kMostBytes, section.length - done));
}

uint32_t sum_of(const unsigned char* bytes, uint64_t length) {
    Checksum sum;
    sum.add(bytes, length);
    return sum.value();
}

uint32_t known_sum(const std::vector<uint32_t>& sums, uint64_t at, uint64_t length) {
    Checksum sum;
    for (uint64_t done = 0; done < length; done += Connection::kSummed)
        sum.add_known(sums[(at + done) / Connection::kSummed], std::min<uint64_t>(Connection::kSummed, length - done));
    return sum.value();
}

// Messages whose checksums cross together.
struct Batch {
    const Section* begin;
    const Section* end;
};

std::vector<Batch> batches_of(const std::vector<Section>& messages) {
    std::vector<Batch> batches;
    for (size_t at = 0; at < messages.size(); at += kBatch)
        batches.push_back({messages.data() + at, messages.data() + std::min(messages.size(), at + kBatch)});
    return batches;
}

// Returns when the bytes up to there may be sent. What is under way meanwhile moves on first.
int await_ready(Ucx& ucx, const Ready& ready, uint64_t end, const Ucx::Over& over) {
    const int error = ready(end, false);
    if (error != EAGAIN) return error;
    while (ucx.under_way() > 0)
        if (const int failed = ucx.wait(over)) return failed;
    return ready(end, true);
}

int send_batch(Connection& words, Ucx& ucx, const Batch& batch, const std::vector<uint32_t>* known,
               const Ucx::Over& over, const Ready& ready) {
    std::vector<uint32_t> sums;
    for (const Section* section = batch.begin; section < batch.end; ++section) {
        if (ready)
            if (const int error = await_ready(ucx, ready, section->at + section->length, over)) return error;
        while (ucx.under_way() >= kUnderWay)
            if (const int error = ucx.wait(over)) return error;
        if (const int error = ucx.send(section->bytes, section->length)) return error;
        for_blocks(*section, [&](const unsigned char* bytes, uint64_t at, uint64_t length) {
            sums.push_back(known ? known_sum(*known, at, length) : sum_of(bytes, length));
            ucx.move_on();
        });
    }
    // First: the other half may have all messages already, and waits for this.
    return words.send_words(Connection::one_piece(sums.data(), sums.size() * sizeof(uint32_t)));
}

int send_messages(Connection& words, Ucx& ucx, const Sections& sections, const std::vector<uint32_t>* known,
                  const Ucx::Over& over, const Ready& ready) {
    for (const Batch& batch : batches_of(sections.messages))
        if (const int error = send_batch(words, ucx, batch, known, over, ready)) return error;
    while (ucx.under_way() > 0)
        if (const int error = ucx.wait(over)) return error;
    return ucx.flush(over);
}

int receive_batch(Ucx& ucx, const Batch& batch, const Ucx::Over& over, std::vector<uint32_t>* sums) {
    const Section* next = batch.begin;
    for (const Section* section = batch.begin; section < batch.end; ++section) {
        for (; next < batch.end && ucx.under_way() < kUnderWay; ++next)
            if (const int error = ucx.receive(next->bytes, next->length)) return error;
        if (const int error = ucx.wait(over)) return error;
#ifdef WILKINS_HOOKS
        if (fault::flips(true)) section->bytes[section->length / 3] ^= 4;
#endif
        for_blocks(*section, [&](const unsigned char* bytes, uint64_t, uint64_t length) {
            sums->push_back(sum_of(bytes, length));
            ucx.move_on();
        });
    }
    return ucx.flush(over);
}

int receive_messages(Connection& words, Ucx& ucx, const Sections& sections, const Ucx::Over& over,
                     std::vector<ByteRange>* damaged, const Came& came) {
    for (const Batch& batch : batches_of(sections.messages)) {
        std::vector<uint32_t> sums;
        if (const int error = receive_batch(ucx, batch, over, &sums)) return error;
        std::vector<uint32_t> sent(sums.size());
        if (const int error = words.receive(sent.data(), sent.size() * sizeof(uint32_t))) return error;
        auto own = sums.begin(), other = sent.begin();
        for (const Section* section = batch.begin; section < batch.end; ++section)
            for_blocks(*section, [&](const unsigned char*, uint64_t at, uint64_t length) {
                if (*own++ != *other++) damaged->push_back({at, at + length});
            });
        const Section& last = batch.end[-1];
        if (came && damaged->empty()) came(last.at + last.length);
    }
    return 0;
}

}  // namespace

bool is_bulk(Pieces pieces) {
    for (; !pieces.done(); pieces.advance(pieces.first().iov_len))
        if (pieces.first().iov_len >= kLeast) return true;
    return false;
}

int send_bulk(Connection& words, Ucx& ucx, Pieces bytes, const std::vector<uint32_t>* sums, const Ucx::Over& over,
              const Ready& ready) {
    const Sections sections(std::move(bytes));
    int error = words.send_bytes(sections.small_pieces());
    if (!error) error = send_messages(words, ucx, sections, sums, over, ready);
    if (error) ucx.give_up();
    return error;
}

int receive_bulk(Connection& words, Ucx& ucx, Pieces to, const Ucx::Over& over, std::vector<ByteRange>* damaged,
                 const Came& came) {
    const Sections sections(std::move(to));
    damaged->clear();
    int error = words.receive(sections.small_pieces());
    const std::vector<ByteRange> damaged_small = words.damaged();
    if (error == EBADMSG && !damaged_small.empty()) error = 0;
    if (!error) error = receive_messages(words, ucx, sections, over, damaged, damaged_small.empty() ? came : Came());
    if (error) {
        ucx.give_up();  // before anybody else gets this memory
        damaged->clear();
        return error;
    }
    sections.place(damaged_small, damaged);
    std::sort(damaged->begin(), damaged->end(),
              [](const ByteRange& one, const ByteRange& other_range) { return one.begin < other_range.begin; });
    return damaged->empty() ? 0 : EBADMSG;
}

}  // namespace wilkins::far
