// By the processor's own instructions, where it has some.
#include "far/checksum.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sys/auxv.h>

#include <array>
#include <cstring>

namespace wilkins::far {

namespace {

// Polynomials of degree 31 at most: the highest bit is the coefficient of 1, the lowest that of x^31.
constexpr uint32_t kCastagnoli = 0x82f63b78;  // x^32 less than it is
constexpr uint32_t kOne = 0x80000000;

constexpr uint32_t times_x(uint32_t value) { return value >> 1 ^ (value & 1 ? kCastagnoli : 0); }

constexpr uint32_t product(uint32_t one, uint32_t other) {
    uint32_t sum = 0;
    for (; one != 0; one <<= 1, other = times_x(other))
        if (one & kOne) sum ^= other;
    return sum;
}

// x to this power.
constexpr uint32_t power(uint64_t exponent) {
    uint32_t found = kOne;
    for (uint32_t square = kOne >> 1; exponent > 0; exponent >>= 1, square = product(square, square))
        if (exponent & 1) found = product(found, square);
    return found;
}

constexpr std::array<uint32_t, 256> make_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t k = 0; k < 256; ++k) {
        uint32_t value = k;
        for (int bit = 0; bit < 8; ++bit) value = times_x(value);
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

constexpr size_t kWord = 8;
constexpr size_t kPart = 1 << 14;  // of bytes of which a processor takes four parts at once
constexpr uint32_t kBehindPart = power(8 * kPart);

template <class By>
uint32_t add_by(uint32_t crc, const unsigned char* bytes, size_t count) {
    for (; count >= 4 * kPart; bytes += 4 * kPart, count -= 4 * kPart) {
        uint32_t second = 0, third = 0, fourth = 0;
        for (const unsigned char* at = bytes; at < bytes + kPart; at += kWord) {
            crc = By::word(crc, at);
            second = By::word(second, at + kPart);
            third = By::word(third, at + 2 * kPart);
            fourth = By::word(fourth, at + 3 * kPart);
        }
        for (const uint32_t next : {second, third, fourth}) crc = product(crc, kBehindPart) ^ next;
    }
    for (; count >= kWord; bytes += kWord, count -= kWord) crc = By::word(crc, bytes);
    for (; count > 0; ++bytes, --count) crc = By::byte(crc, *bytes);
    return crc;
}

#if defined(__x86_64__)
#define WILKINS_FOLDS __attribute__((target("avx512f,avx512vl,pclmul,vpclmulqdq")))

constexpr size_t kVector = sizeof(__m512i), kRound = 4 * kVector;
// Bytes that are asked for ahead, since an arena is in no cache: 35 GB/s of it rather than 28.
constexpr size_t kAhead = 4096, kLine = 64;

bool can_fold() {
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
}

// What moves 16 bytes over so many others: of both their words the power of x by which they are multiplied, less the
// one that such a multiplication has too many.
WILKINS_FOLDS __m512i over(size_t bytes) {
    const uint64_t first = power(8 * bytes + 63), second = power(8 * bytes - 1);
    uint64_t factors[kVector / kWord];
    for (size_t k = 0; k < kVector / kWord; ++k) factors[k] = (k % 2 == 0 ? first : second) << 32;
    return _mm512_loadu_si512(factors);
}

WILKINS_FOLDS __m512i vector(const unsigned char* bytes, size_t number) {
    return _mm512_loadu_si512(bytes + number * kVector);
}

WILKINS_FOLDS __m512i folded(__m512i sum, __m512i factors, __m512i next) {
    constexpr int kXorOfThree = 0x96;
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, factors, 0x00),
                                     _mm512_clmulepi64_epi128(sum, factors, 0x11), next, kXorOfThree);
}

// Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ instruction" (Intel, 2009), four vectors
// at once. Takes whole rounds, one at least.
WILKINS_FOLDS uint32_t fold(uint32_t crc, const unsigned char* bytes, size_t count) {
    static const __m512i over_round = over(kRound), over_vector = over(kVector);
    __m512i first =
        _mm512_xor_si512(vector(bytes, 0), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
    __m512i second = vector(bytes, 1), third = vector(bytes, 2), fourth = vector(bytes, 3);
    for (bytes += kRound, count -= kRound; count > 0; bytes += kRound, count -= kRound) {
        for (size_t line = 0; line < kRound; line += kLine) __builtin_prefetch(bytes + kAhead + line);
        first = folded(first, over_round, vector(bytes, 0));
        second = folded(second, over_round, vector(bytes, 1));
        third = folded(third, over_round, vector(bytes, 2));
        fourth = folded(fourth, over_round, vector(bytes, 3));
    }
    second = folded(first, over_vector, second);
    third = folded(second, over_vector, third);
    fourth = folded(third, over_vector, fourth);
    unsigned char left[kVector];
    _mm512_storeu_si512(left, fourth);
    return add_by<ByInstruction>(0, left, sizeof(left));
}
#endif

}  // namespace

void Checksum::add(const void* bytes, size_t count) {
    const auto* at = static_cast<const unsigned char*>(bytes);
#if defined(__x86_64__)
    static const bool folds = can_fold();
    if (const size_t rounds = folds ? count / kRound * kRound : 0) {
        crc_ = fold(crc_, at, rounds);
        at += rounds;
        count -= rounds;
    }
#endif
    add_by_words(at, count);
}

void Checksum::add_known(uint32_t value, size_t count) {
    static constexpr size_t kCommon = 4 * kPart;
    static constexpr uint32_t kBehindCommon = power(8 * kCommon);
    crc_ = ~(product(~crc_, count == kCommon ? kBehindCommon : power(8 * count)) ^ value);
}

void Checksum::add_by_words(const void* bytes, size_t count) {
    static const bool quick = ByInstruction::exists();
    if (quick) crc_ = add_by<ByInstruction>(crc_, static_cast<const unsigned char*>(bytes), count);
    else add_by_tables(bytes, count);
}

void Checksum::add_by_tables(const void* bytes, size_t count) {
    crc_ = add_by<ByTables>(crc_, static_cast<const unsigned char*>(bytes), count);
}

}  // namespace wilkins::far
