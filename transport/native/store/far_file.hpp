// A step in the memory of another host, on which a rank of the same task has opened it for all: reads and writes go to that host's
// server of files, by a connection for each open file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/store.hpp"

namespace wilkins {

// Where this process's host serves the files of the process's task to ranks on other hosts: `address:port`; empty if all run here.
const char* served_at();

// Opens, for a rank by itself, a file that its task has written on another host: to be changed there, or a copy to be read. nullptr, with
// ENOENT, if there is none.
StepFile* open_elsewhere(const Match& match, bool writable, int* error);

// What a step on another host is opened for.
enum class Use : int32_t {
    read,   // by another rank of the task that has it open
    write,  // likewise
    bring,  // to read of it what is absent elsewhere (see store/lent.hpp)
    keep,   // so that it stays meanwhile
};

class FarFile {
public:
    // Connects to the server at `where`; the token's slot -1: for the task's own file of that name. nullptr, with an errno, if that cannot be.
    static std::unique_ptr<FarFile> open(const char* where, const StepToken& token, Use use, const char* name, int* error);
    bool writable() const { return use_ == Use::write; }
    int wire() const { return wire_; }
    const char* where() const { return where_.c_str(); }
    const StepToken& token() const { return token_; }
    ~FarFile();
    FarFile(const FarFile&) = delete;
    FarFile& operator=(const FarFile&) = delete;

    // Both may be under way until `settle`; so `memory` has to stay.
    void write(uint64_t place, const void* memory, size_t length);
    void read(uint64_t place, void* memory, size_t length);
    // All is done that was asked for. Returns the first errno since the last time.
    int settle();

    // Each returns an errno. `kind`: as fcntl has it.
    int eof(uint64_t* size);
    int lock(short kind);
    int set_eof(uint64_t size);
    int publish();
    // The server lets go of the step.
    int close();

private:
    FarFile(int wire, Use use, const char* where) : wire_(wire), use_(use), where_(where) {}
    int ask(uint32_t what, int32_t kind, uint64_t length, uint64_t* value);
    struct Asked {
        void* memory;
        size_t length;
    };
    void send(uint32_t what, int32_t kind, uint64_t place, uint64_t length, const void* bytes, size_t count);
    void push();
    void collect();
    int answer(uint64_t* value);
    bool receive(void* memory, size_t length);
    void fail(int error);

    int wire_;
    Use use_;
    std::string where_;
    StepToken token_{};
    int error_ = 0;
    bool writes_ = false;       // some have not been answered for
    std::string unsent_;
    std::vector<Asked> asked_;  // reads on their way
};

// Serves the files of this process's task, which has to be part of a run, to ranks on other hosts that know the key. Returns an errno
// when nobody can connect any more.
int serve_files(int listener, const std::string& key);

}  // namespace wilkins
