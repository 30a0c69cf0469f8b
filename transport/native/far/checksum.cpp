// By the processor's own instruction for it, where it has one.
#include "far/checksum.hpp"

#include <sys/auxv.h>

#include <cstring>

namespace wilkins::far {

namespace {

constexpr uint32_t kCastagnoli = 0x82f63b78;  // x^32 + x^28 + ... + 1, the lowest bit first

constexpr std::array<uint32_t, 256> make_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t k = 0; k < 256; ++k) {
        uint32_t value = k;
        for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kCastagnoli : 0);
        table[k] = value;
    }
    return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

struct ByTables {
    static uint32_t byte(uint32_t crc, unsigned char byte) { return crc >> 8 ^ kTable[(crc ^ byte) & 0xff]; }
    static uint32_t word(uint32_t crc, const unsigned char* bytes) {
        for (int k = 0; k < 8; ++k) crc = byte(crc, bytes[k]);
        return crc;
    }
};

uint64_t load(const unsigned char* bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

// (Instructions that the compiler is not asked to assume: whether the processor has them is known at run time.)
#if defined(__x86_64__)
struct ByInstruction {
    static bool exists() { return __builtin_cpu_supports("sse4.2") != 0; }
    static uint32_t byte(uint32_t crc, unsigned char byte) {
        asm("crc32b %1, %0" : "+r"(crc) : "q"(byte));
        return crc;
    }
    static uint32_t word(uint32_t crc, const unsigned char* bytes) {
        uint64_t wide = crc;
        asm("crc32q %1, %0" : "+r"(wide) : "r"(load(bytes)));
        return static_cast<uint32_t>(wide);
    }
};
#elif defined(__aarch64__)
struct ByInstruction {
    static bool exists() { return (getauxval(AT_HWCAP) & 1 << 7 /* HWCAP_CRC32 */) != 0; }
    static uint32_t byte(uint32_t crc, unsigned char byte) {
        asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(uint32_t{byte}));
        return crc;
    }
    static uint32_t word(uint32_t crc, const unsigned char* bytes) {
        asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(load(bytes)));
        return crc;
    }
};
#else
struct ByInstruction : ByTables {
    static bool exists() { return false; }
};
#endif

constexpr size_t kWord = 8, kRound = 4 * kWord;
// Bytes that are asked for ahead, since an arena is in no cache: 14 GB/s of it rather than 11.
constexpr size_t kAhead = 2048;

// `at`: how many bytes were before these.
template <class By>
void add_by(Checksum::Lanes& lanes, size_t at, const unsigned char* bytes, size_t count) {
    const auto lane = [&]() -> uint32_t& { return lanes[at / kWord % lanes.size()]; };
    const auto add_byte = [&] {
        lane() = By::byte(lane(), *bytes);
        ++at, ++bytes, --count;
    };
    const auto add_word = [&] {
        lane() = By::word(lane(), bytes);
        at += kWord, bytes += kWord, count -= kWord;
    };
    while (count > 0 && at % kWord != 0) add_byte();
    while (count >= kWord && at % kRound != 0) add_word();
    auto [first, second, third, fourth] = lanes;
    for (; count >= kRound; bytes += kRound, count -= kRound, at += kRound) {
        __builtin_prefetch(bytes + kAhead);
        first = By::word(first, bytes);
        second = By::word(second, bytes + kWord);
        third = By::word(third, bytes + 2 * kWord);
        fourth = By::word(fourth, bytes + 3 * kWord);
    }
    lanes = {first, second, third, fourth};
    while (count >= kWord) add_word();
    while (count > 0) add_byte();  // NOLINT(bugprone-infinite-loop): the function changes it
}

}  // namespace

void Checksum::add(const void* bytes, size_t count) {
    static const bool quick = ByInstruction::exists();
    if (!quick) return add_by_tables(bytes, count);
    add_by<ByInstruction>(lanes_, at_, static_cast<const unsigned char*>(bytes), count);
    at_ += count;
}

uint32_t Checksum::value() const {
    uint32_t value = ~0u;
    for (const uint32_t lane : lanes_)
        for (int shift = 0; shift < 32; shift += 8)
            value = ByTables::byte(value, static_cast<unsigned char>(lane >> shift));
    return value;
}

void Checksum::add_by_tables(const void* bytes, size_t count) {
    add_by<ByTables>(lanes_, at_, static_cast<const unsigned char*>(bytes), count);
    at_ += count;
}

}  // namespace wilkins::far
