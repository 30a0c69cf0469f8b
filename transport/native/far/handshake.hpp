// How a process shows the process of the run that listens on another host that it knows the run's key, without saying
// it: see transport/handshake.py, which has the other side.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace wilkins::handshake {

using Bytes32 = std::array<unsigned char, 32>;

// HMAC-SHA256: RFC 2104 over FIPS 180-4.
Bytes32 hmac(const std::string& key, const std::string& text);

struct RunKey {
    std::string key;        // bytes; none: it cannot be read
    bool encrypts = false;  // the run encrypts what crosses between hosts
};

// That of this process's run.
RunKey run_key();

struct Answer {
    std::string words;       // what a server of files gets for its challenge; none: there are no random bytes to be had
    Bytes32 expected;        // what it answers then
    std::string frame_keys;  // of this connection, as `frame_keys` of transport/handshake.py
};
Answer answer(const std::string& key, const Bytes32& challenge);

}  // namespace wilkins::handshake
