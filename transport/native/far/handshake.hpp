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

// The key of this process's run, as bytes; empty: it cannot be read.
std::string run_key();

// What a server of files gets for its challenge; `*expected`: what it answers then. Empty: there are no random bytes to
// be had.
std::string answer(const std::string& key, const Bytes32& challenge, Bytes32* expected);

}  // namespace wilkins::handshake
