// AES-GCM by OpenSSL.
#include "cipher/cipher.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace wilkins::cipher {

namespace {

EVP_CIPHER_CTX* of(void* made) { return static_cast<EVP_CIPHER_CTX*>(made); }

void* make(const unsigned char* key, bool encrypts) {
    // Programs exit while threads use it; and what a configuration file says is for the program's own OpenSSL.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
    EVP_CIPHER_CTX* const made = EVP_CIPHER_CTX_new();
    if (made != nullptr && EVP_CipherInit_ex(made, EVP_aes_128_gcm(), nullptr, key, nullptr, encrypts ? 1 : 0) == 1)
        return made;
    EVP_CIPHER_CTX_free(made);
    return nullptr;
}

void drop(void* made) { EVP_CIPHER_CTX_free(of(made)); }

bool change(EVP_CIPHER_CTX* made, const unsigned char* nonce, const void* head, size_t head_length,
            unsigned char* bytes, size_t length) {
    int count = 0;
    return EVP_CipherInit_ex(made, nullptr, nullptr, nullptr, nonce, -1) == 1 &&
           EVP_CipherUpdate(made, nullptr, &count, static_cast<const unsigned char*>(head),
                            static_cast<int>(head_length)) == 1 &&
           EVP_CipherUpdate(made, bytes, &count, bytes, static_cast<int>(length)) == 1 &&
           count == static_cast<int>(length);
}

bool encrypt(void* made, const unsigned char* nonce, const void* head, size_t head_length, unsigned char* bytes,
             size_t length, unsigned char* tag) {
    int none = 0;
    return change(of(made), nonce, head, head_length, bytes, length) &&
           EVP_CipherFinal_ex(of(made), bytes + length, &none) == 1 &&
           EVP_CIPHER_CTX_ctrl(of(made), EVP_CTRL_AEAD_GET_TAG, kTag, tag) == 1;
}

bool decrypt(void* made, const unsigned char* nonce, const void* head, size_t head_length, unsigned char* bytes,
             size_t length, const unsigned char* tag) {
    int none = 0;
    return change(of(made), nonce, head, head_length, bytes, length) &&
           EVP_CIPHER_CTX_ctrl(of(made), EVP_CTRL_AEAD_SET_TAG, kTag, const_cast<unsigned char*>(tag)) == 1 &&
           EVP_CipherFinal_ex(of(made), bytes + length, &none) == 1;
}

constexpr Functions kFunctions = {make, drop, encrypt, decrypt};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Functions* wilkins_cipher() { return &kFunctions; }

}  // namespace wilkins::cipher
