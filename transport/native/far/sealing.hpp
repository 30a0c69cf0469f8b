// What makes frames between hosts unreadable and unchangeable for others, where a run encrypts.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cipher/cipher.hpp"

namespace wilkins::far {

// Both directions of one connection, of which each has its key. The n-th frame of a direction has the nonce n, so one
// that was changed, left out, repeated or moved cannot be opened, nor can what follows. Each direction is one thread's.
class Sealing {
public:
    // Bytes of the keys: of what this side sends, then of what it receives (transport/handshake.py, `frame_keys`).
    static constexpr size_t kKeys = 2 * cipher::kKey;
    // nullptr, and an errno. ENOPKG: `libwilkins-cipher.so` is not beside the layer, or not for this system.
    static std::shared_ptr<Sealing> make(const std::string& keys, int* error);

    ~Sealing();
    Sealing(const Sealing&) = delete;
    Sealing& operator=(const Sealing&) = delete;

    // Encrypts the next frame's bytes in place. `head`: what is sent in clear before them, and can be changed no more.
    // False in a fork: it counts as this process does, and who sees two frames of one nonce can tell what differs.
    bool seal(const void* head, size_t head_length, unsigned char* bytes, size_t length, unsigned char* tag);
    // Decrypts them. False: they are not the next ones that the other side has sent.
    bool open(const void* head, size_t head_length, unsigned char* bytes, size_t length, const unsigned char* tag);

private:
    explicit Sealing(const cipher::Functions* functions) : functions_(functions), process_(getpid()) {}

    const cipher::Functions* functions_;
    void* sends_ = nullptr;
    void* receives_ = nullptr;
    pid_t process_;
    uint64_t sent_ = 0, received_ = 0;  // frames
};

}  // namespace wilkins::far
