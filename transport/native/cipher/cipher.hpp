// What `libwilkins-cipher.so` gives to the layer. It is a library of its own, with OpenSSL's code inside: programs may
// have another OpenSSL, of which only one of a name can be in a process.
#pragma once

#include <cstddef>

namespace wilkins::cipher {

// AES-128-GCM (NIST SP 800-38D).
constexpr size_t kKey = 16, kNonce = 12, kTag = 16;

struct Functions {
    // A key that encrypts, or one that decrypts; nullptr: no memory.
    void* (*make)(const unsigned char* key, bool encrypts);
    void (*drop)(void* made);
    // Each changes the bytes in place, and writes or compares their tag, which is over `head`, too. A nonce is used
    // once with a key. False: they are not what was encrypted, or the library fails.
    bool (*encrypt)(void* made, const unsigned char* nonce, const void* head, size_t head_length, unsigned char* bytes,
                    size_t length, unsigned char* tag);
    bool (*decrypt)(void* made, const unsigned char* nonce, const void* head, size_t head_length, unsigned char* bytes,
                    size_t length, const unsigned char* tag);
};

// The only function that can be seen.
constexpr const char* kEntry = "wilkins_cipher";
using Entry = const Functions* (*)();

}  // namespace wilkins::cipher
