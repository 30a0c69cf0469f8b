// The library for it is loaded where the first connection needs it: runs that do not encrypt know nothing of it.
#include "far/sealing.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace wilkins::far {

namespace {

// It lies beside the library, or the test, that this code is in.
const cipher::Functions* load() {
    static const char beside = 0;
    Dl_info here{};
    if (dladdr(&beside, &here) == 0 || here.dli_fname == nullptr) return nullptr;
    const std::string path = here.dli_fname;
    const std::string name = path.substr(0, path.rfind('/') + 1) + "libwilkins-cipher.so";
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const entry = library != nullptr ? dlsym(library, cipher::kEntry) : nullptr;
    return entry != nullptr ? reinterpret_cast<cipher::Entry>(entry)() : nullptr;
}

void write_nonce(uint64_t number, unsigned char* nonce) {
    memset(nonce, 0, cipher::kNonce);
    memcpy(nonce + cipher::kNonce - sizeof(number), &number, sizeof(number));
}

}  // namespace

std::shared_ptr<Sealing> Sealing::make(const std::string& keys, int* error) {
    static const cipher::Functions* const functions = load();
    *error = functions == nullptr ? ENOPKG : keys.size() != kKeys ? EINVAL : 0;
    if (*error != 0) return nullptr;
    std::shared_ptr<Sealing> made(new Sealing(functions));
    const auto* const bytes = reinterpret_cast<const unsigned char*>(keys.data());
    made->sends_ = functions->make(bytes, true);
    made->receives_ = functions->make(bytes + cipher::kKey, false);
    if (made->sends_ != nullptr && made->receives_ != nullptr) return made;
    *error = ENOMEM;
    return nullptr;
}

Sealing::~Sealing() {
    functions_->drop(sends_);
    functions_->drop(receives_);
}

bool Sealing::seal(const void* head, size_t head_length, unsigned char* bytes, size_t length, unsigned char* tag) {
    if (getpid() != process_) return false;
    unsigned char nonce[cipher::kNonce];
    write_nonce(sent_++, nonce);
    return functions_->encrypt(sends_, nonce, head, head_length, bytes, length, tag);
}

bool Sealing::open(const void* head, size_t head_length, unsigned char* bytes, size_t length,
                   const unsigned char* tag) {
    unsigned char nonce[cipher::kNonce];
    write_nonce(received_++, nonce);
    return functions_->decrypt(receives_, nonce, head, head_length, bytes, length, tag);
}

}  // namespace wilkins::far
