// The side of those who connect, in the handshake by which processes on different hosts show that they know the run's
// key.
#include "far/handshake.hpp"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/raw.hpp"
#include "board/process.hpp"
#include "cipher/cipher.hpp"

namespace wilkins::handshake {

namespace {

constexpr size_t kBlock = 64;

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t turned(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

void take_block(uint32_t (&state)[8], const unsigned char* block) {
    uint32_t words[64];
    for (int k = 0; k < 16; ++k, block += 4)
        words[k] = uint32_t{block[0]} << 24 | uint32_t{block[1]} << 16 | uint32_t{block[2]} << 8 | block[3];
    for (int k = 16; k < 64; ++k) {
        const uint32_t a = words[k - 15], b = words[k - 2];
        words[k] = words[k - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + words[k - 7] +
                   (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
    uint32_t now[8];
    std::copy(std::begin(state), std::end(state), now);
    for (int k = 0; k < 64; ++k) {
        const uint32_t a = now[0], e = now[4];
        const uint32_t first = now[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                               ((e & now[5]) ^ (~e & now[6])) + kRounds[k] + words[k];
        const uint32_t second =
            (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & now[1]) ^ (a & now[2]) ^ (now[1] & now[2]));
        std::copy_backward(now, now + 7, now + 8);
        now[4] += first;
        now[0] = first + second;
    }
    for (int k = 0; k < 8; ++k) state[k] += now[k];
}

Bytes32 sha256(std::string text) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint64_t bits = uint64_t{text.size()} * 8;
    text.push_back(static_cast<char>(0x80));
    while (text.size() % kBlock != kBlock - 8) text.push_back(0);
    for (int shift = 56; shift >= 0; shift -= 8) text.push_back(static_cast<char>(bits >> shift));
    for (size_t at = 0; at < text.size(); at += kBlock)
        take_block(state, reinterpret_cast<const unsigned char*>(text.data()) + at);
    Bytes32 sum;
    for (size_t k = 0; k < sum.size(); ++k) sum[k] = static_cast<unsigned char>(state[k / 4] >> (24 - 8 * (k % 4)));
    return sum;
}

std::string as_text(const Bytes32& bytes) { return {bytes.begin(), bytes.end()}; }

Bytes32 proof(const std::string& key, const char* side, const std::string& seen) {
    return hmac(key, std::string(side) + " files" + '\0' + seen);
}

}  // namespace

Bytes32 hmac(const std::string& key, const std::string& text) {
    std::string block = key.size() > kBlock ? as_text(sha256(key)) : key;
    block.resize(kBlock, 0);
    std::string outer = block;
    for (char& one : block) one = static_cast<char>(one ^ 0x36);
    for (char& one : outer) one = static_cast<char>(one ^ 0x5c);
    return sha256(outer + as_text(sha256(block + text)));
}

RunKey run_key() {
    const std::string path = std::string(process().board.folder()) + "/key";
    const int file = raw::open(path.c_str(), O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return {};
    char text[2 * kBlock + 1] = {};
    const ssize_t length = raw::pread(file, text, sizeof(text) - 1, 0);
    raw::close(file);
    if (length <= 0) return {};
    RunKey run;
    const size_t count = strspn(text, "0123456789abcdef");
    run.encrypts = text[count] != 0;
    for (size_t k = 0; k + 1 < count; k += 2) {
        const char digits[] = {text[k], text[k + 1], 0};
        run.key.push_back(static_cast<char>(strtol(digits, nullptr, 16)));
    }
    return run;
}

Answer answer(const std::string& key, const Bytes32& challenge) {
    Bytes32 own{};
    for (size_t done = 0; done < own.size();) {
        const ssize_t count = getrandom(own.data() + done, own.size() - done, 0);
        if (count > 0) done += static_cast<size_t>(count);
        else if (errno != EINTR) return {};
    }
    const std::string seen = as_text(challenge) + as_text(own);
    const auto frame_key = [&](const char* side) { return as_text(proof(key, side, seen)).substr(0, cipher::kKey); };
    return {as_text(own) + as_text(proof(key, "client", seen)), proof(key, "server", seen),
            frame_key("client-frames") + frame_key("server-frames")};
}

}  // namespace wilkins::handshake
