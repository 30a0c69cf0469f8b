// A step whose arena is on another host, on which a rank of the same task has opened it for all: by a connection for
// each open file to that host's server of files. What is written stays on the rank's own host, in a part
// (far/part.hpp), and the server is notified; but short pieces go to the arena. What is read comes from where it was
// written last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "board/step_token.hpp"
#include "far/line.hpp"
#include "far/part.hpp"

namespace wilkins {

// Where this process's host serves the files of the process's task to ranks on other hosts: `address:port`; empty if
// all run here.
const char* served_at();

// What a step on another host is opened for.
enum class Use : int32_t {
    read,   // by another rank of the task that has it open
    write,  // likewise
    bring,  // to read of it what is absent elsewhere (see steps/lazy.hpp)
    part,   // to read what ranks there have written of a step on another host
    keep,   // no step: all that the server, a relay's sender, has sent in part stays meanwhile
    ask,    // no step: whether files of the server's in-port are in a folder
    miss,   // no step: whether the server's in-port does not get the step of a name
};

namespace far {
struct Hello;
struct Opened;
}  // namespace far

// True if an in-port holds in a folder. Not yet, if a producer may still begin its first file there.
enum class Held : uint64_t { no, not_yet, yes };

class FarFile {
public:
    // Connects to the server at `where`; the token's slot -1: for the task's own file of that name. `address`: to
    // write, where this host's own server is; of a part, where that of the host is on which the step was made. nullptr,
    // with an errno, if that cannot be.
    static std::unique_ptr<FarFile> open(const char* where, const StepToken& token, Use use, const char* name,
                                         const char* address, int* error);
    // What the server at `where` knows of a folder (see names/places.hpp). Held::no if it does not answer: then no file
    // comes from there. Held::not_yet if it could not be asked now.
    static Held ask_of_folder(const char* where, const char* folder, bool deep);
    // Whether the relay at `where` was not given the step of this name, nor will be.
    static bool ask_whether_left_out(const char* where, const char* name);
    bool writable() const { return use_ == Use::write; }
    const char* where() const { return where_.c_str(); }
    const StepToken& token() const { return token_; }
    ~FarFile();
    FarFile(const FarFile&) = delete;
    FarFile& operator=(const FarFile&) = delete;

    // These may be under way until `settle`; so `memory` has to stay.
    void write(uint64_t place, const void* memory, size_t length);
    void read(uint64_t place, void* memory, size_t length);
    // Reads ranges, each to its place in a file that begins at `memory`, by one question.
    void gather(std::vector<ByteRange> ranges, unsigned char* memory);
    // All is done that was asked for. Returns the first errno since the last time.
    int settle();
    // True if bytes of the step had changed in its host's memory, which has mended them for this.
    bool had_changed() const { return had_changed_; }

    // Each returns an errno. `kind`: as fcntl has it.
    int eof(uint64_t* size);
    int lock(short kind);
    int set_eof(uint64_t size);
    int publish();
    // Whose these bytes of a published step are, in words; empty: that is not known.
    std::string owners(const std::vector<ByteRange>& bytes);
    // The server lets go of the step.
    int close();

private:
    // Connects, and says what for. nullptr, with an errno, if that cannot be.
    static std::unique_ptr<FarFile> greet(const char* where, const far::Hello& hello, far::Opened* opened, int* error);
    FarFile(std::unique_ptr<far::Line> line, const far::Hello& hello, const char* where);
    int ask(uint32_t what, int32_t kind, uint64_t length, uint64_t* value);
    struct Asked {
        uint64_t place;
        unsigned char* memory;
        size_t length;
    };
    // Of those, bytes that another host has.
    struct Elsewhere {
        Asked bytes;
        uint64_t host;
    };
    bool keep(uint64_t begin, uint64_t end, const unsigned char* bytes);
    bool collect_one(const Asked& asked, uint64_t runs, std::vector<Elsewhere>* elsewhere, std::vector<Asked>* damaged);
    void read_elsewhere(const std::vector<Elsewhere>& pieces);
    // Of so many bytes of the step that were asked for, these have come damaged. They alone are asked for again; false:
    // too often, nothing has come sound. `noted`: it was noted that they were damaged before.
    bool may_ask_again(const std::vector<ByteRange>& bytes, uint64_t asked, bool noted);
    FarFile* other(uint64_t host);
    void send(uint32_t what, int32_t kind, uint64_t place, uint64_t length, const void* bytes, size_t count);
    void push();
    void request(const std::vector<ByteRange>& gathered);
    void collect();
    // The answers to these. False: the connection is broken.
    bool collect_all(const std::vector<Asked>& asked, std::vector<Asked>* damaged);
    void collect_gathered();
    int answer(uint64_t* value);
    bool receive(void* memory, size_t length);
    // Of the step. False: the connection is broken.
    bool receive_bytes(const Asked& asked, std::vector<Asked>* damaged);
    void fail(int error);

    // Nothing is under way, and nothing was damaged: the connection may serve another file.
    bool is_sound() const;
    // Lets go of the step, if that was not done, and keeps the connection.
    void leave();

    std::unique_ptr<far::Line> line_;
    bool is_open_ = false;  // the server has the step open for this
    bool was_damaged_ = false;
    Use use_;
    std::string name_;
    std::string where_;
    std::string lead_;  // where that of the host is on which the step was made
    StepToken token_{};
    uint64_t number_ = 0;   // of this host, among those that have bytes of the step; 0: it may have none
    Part* part_ = nullptr;  // in which it has them
    std::map<uint64_t, std::unique_ptr<FarFile>> others_;  // by number
    int error_ = 0;
    int in_vain_ = 0;  // how often in a row nothing has come sound
    bool had_changed_ = false;
    bool writes_ = false;  // some have not been answered for
    std::string unsent_;
    std::vector<Asked> asked_;         // reads on their way
    std::vector<ByteRange> gathered_;  // likewise
    unsigned char* gathers_to_ = nullptr;
};

}  // namespace wilkins
