// The rank's side of a step on another host.
#include "far/far_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "board/border.hpp"
#include "board/step_token.hpp"
#include "far/far_wire.hpp"
#include "far/damage.hpp"
#include "far/runs.hpp"

namespace wilkins {

namespace {

// Requests for bytes that are on their way at once: as many as fit into the buffers of a connection, so that neither
// side waits to send while the other one does.
constexpr size_t kMostAsked = 256;

constexpr size_t kUnsent = 1 << 16;

// Of fewer bytes, to say where they are costs more than to send them.
constexpr uint64_t kWorthKeeping = 8 * homes::kSector;

}  // namespace

const char* served_at() {
    const char* const where = getenv("WILKINS_FILES");
    return where != nullptr ? where : "";
}

std::unique_ptr<FarFile> FarFile::greet(const char* where, const far::Hello& hello, far::Opened* opened, int* error) {
    std::unique_ptr<far::Line> line = far::Line::open(where, hello, opened, error);
    if (!line) return nullptr;
    std::unique_ptr<FarFile> file(new FarFile(std::move(line), hello, where));
    file->is_open_ = opened->error == 0 && hello.use != Use::ask && hello.use != Use::miss;
    *error = static_cast<int>(opened->error);
    return *error == 0 ? std::move(file) : nullptr;
}

std::unique_ptr<FarFile> FarFile::open(const char* where, const StepToken& token, Use use, const char* name,
                                       const char* address, int* error) {
    far::Hello hello{};
    hello.token = token;
    hello.use = use;
    strncpy(hello.name, name, sizeof(hello.name) - 1);
    strncpy(hello.address, address, sizeof(hello.address) - 1);
    far::Opened opened{};
    std::unique_ptr<FarFile> file = greet(where, hello, &opened, error);
    if (!file) return nullptr;
    file->token_ = opened.token;
    int unkept = 0;
    if (opened.number != 0 && (file->part_ = Part::open(where, opened.token.slot, true, &unkept)) != nullptr) {
        file->number_ = opened.number;
        file->part_->begin(opened.token.stamp, address);
    }
    return file;
}

Held FarFile::ask_of_folder(const char* where, const char* folder, bool deep) {
    far::Hello hello{};
    hello.token.slot = deep ? 1 : 0;
    hello.use = Use::ask;
    strncpy(hello.name, folder, sizeof(hello.name) - 1);
    far::Opened opened{};
    int error = 0;
    if (greet(where, hello, &opened, &error)) return static_cast<Held>(opened.number);
    const bool later =
        error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;  // of this process's or host's own
    return later ? Held::not_yet : Held::no;
}

bool FarFile::ask_whether_left_out(const char* where, const char* name) {
    far::Hello hello{};
    hello.use = Use::miss;
    strncpy(hello.name, name, sizeof(hello.name) - 1);
    far::Opened opened{};
    int error = 0;
    return greet(where, hello, &opened, &error) && opened.number != 0;
}

FarFile::FarFile(std::unique_ptr<far::Line> line, const far::Hello& hello, const char* where)
    : line_(std::move(line)),
      use_(hello.use),
      name_(hello.name),
      where_(where),
      lead_(hello.use == Use::part ? hello.address : where) {}

FarFile::~FarFile() {
    if (is_sound())
        guarded("the end of a file of another host", [this] { return leave(), 0; }, [](int error) { return error; });
}

bool FarFile::is_sound() const {
    return error_ == 0 && !was_damaged_ && !writes_ && unsent_.empty() && asked_.empty() && gathered_.empty();
}

void FarFile::leave() {
    const far::Request request = {far::leave, 0, 0, 0};
    const bool over =
        !is_open_ ||
        (line_->is_ours() && line_->connection.send_words(far::Connection::one_piece(&request, sizeof(request))) == 0);
    if (over) far::Line::keep(where_, std::move(line_));
}

void FarFile::fail(int error) {
    if (error_ == 0) error_ = error;
    unsent_.clear();
    asked_.clear();
}

void FarFile::push() {
    if (error_ == 0) {
        if (const int error = line_->connection.send_words(far::Connection::one_piece(unsent_.data(), unsent_.size())))
            fail(error);
    }
    unsent_.clear();
}

void FarFile::send(uint32_t what, int32_t kind, uint64_t place, uint64_t length, const void* bytes, size_t count) {
    const far::Request request = {what, kind, place, length};
    unsent_.append(reinterpret_cast<const char*>(&request), sizeof(request));
    if (count >= kUnsent) {
        push();
        if (error_ != 0) return;
        Pieces all = far::Connection::one_piece(bytes, count);
        const int error = what == far::write ? line_->connection.send_bytes(std::move(all))
                                             : line_->connection.send_words(std::move(all));
        if (error != 0) fail(error);
        return;
    }
    if (count > 0) unsent_.append(static_cast<const char*>(bytes), count);
    if (unsent_.size() >= kUnsent) push();
}

bool FarFile::receive(void* memory, size_t length) {
    if (error_ != 0) return false;
    if (const int error = line_->connection.receive(memory, length)) fail(error);
    return error_ == 0;
}

bool FarFile::receive_bytes(const Asked& asked, std::vector<Asked>* damaged) {
    if (error_ != 0) return false;
    const int error = line_->connection.receive(asked.memory, asked.length);
    if (error != 0 && (error != EBADMSG || line_->connection.damaged().empty())) fail(error);
    for (const ByteRange& range : line_->connection.damaged())
        damaged->push_back({asked.place + range.begin, asked.memory + range.begin, range.end - range.begin});
    return error_ == 0;
}

bool FarFile::may_ask_again(const std::vector<ByteRange>& bytes, uint64_t asked, bool noted) {
    was_damaged_ = true;
    if (far::length_of(bytes) < asked) in_vain_ = 0;
    if (++in_vain_ > far::kMostDamaged) {
        fail(EBADMSG);
        return false;
    }
    if (!noted) far::note_damage(lead_.c_str(), token_, name_.c_str(), where_.c_str(), bytes);
    return true;
}

int FarFile::answer(uint64_t* value) {
    far::Answer answer{};
    if (!receive(&answer, sizeof(answer))) return error_;
    *value = answer.value;
    return static_cast<int>(answer.error);
}

bool FarFile::collect_all(const std::vector<Asked>& asked, std::vector<Asked>* damaged) {
    std::vector<Elsewhere> elsewhere;
    for (const Asked& one : asked) {
        uint64_t runs = 0;
        if (const int error = answer(&runs)) {
            fail(error);
            return false;
        }
        if (!collect_one(one, runs, &elsewhere, damaged)) return false;
    }
    if (!elsewhere.empty()) read_elsewhere(elsewhere);
    return error_ == 0;
}

void FarFile::collect() {
    push();
    std::vector<Asked> damaged, some = std::move(asked_);
    asked_.clear();
    uint64_t length = 0;
    for (const Asked& one : some) length += one.length;
    if (!collect_all(some, &damaged)) return;
    for (bool noted = false; !damaged.empty(); noted = true) {
        std::vector<ByteRange> bytes;
        bytes.reserve(damaged.size());
        for (const Asked& one : damaged) bytes.push_back({one.place, one.place + one.length});
        if (!may_ask_again(bytes, length, noted)) return;
        length = far::length_of(bytes);
        const std::vector<Asked> again = std::move(damaged);
        damaged.clear();
        for (size_t at = 0; at < again.size(); at += some.size()) {
            const auto from = again.begin() + static_cast<std::ptrdiff_t>(at);
            some.assign(from, from + static_cast<std::ptrdiff_t>(std::min(kMostAsked, again.size() - at)));
            for (const Asked& one : some) send(far::read, 0, one.place, one.length, nullptr, 0);
            push();
            if (!collect_all(some, &damaged)) return;
        }
    }
}

// The answer to one that was asked for. False: the connection is broken.
bool FarFile::collect_one(const Asked& asked, uint64_t count, std::vector<Elsewhere>* elsewhere,
                          std::vector<Asked>* damaged) {
    if (count == 0) return receive_bytes(asked, damaged);
    if (count > asked.length) {
        fail(EPROTO);
        return false;
    }
    std::vector<homes::Run> runs(count);
    if (!receive(runs.data(), count * sizeof(homes::Run))) return false;
    const uint64_t last = asked.place + asked.length;
    for (uint64_t at = asked.place, k = 0; k < count; at = runs[k++].end) {
        if (runs[k].end <= at || runs[k].end > last) {
            fail(EPROTO);
            return false;
        }
        const size_t length = runs[k].end - at;
        unsigned char* const memory = asked.memory + (at - asked.place);
        if (runs[k].host == homes::kHere) {
            if (!receive_bytes({at, memory, length}, damaged)) return false;
        } else if (runs[k].host == number_) {
            memcpy(memory, part_->bytes() + at, length);
        } else {
            elsewhere->push_back({{at, memory, length}, runs[k].host});
        }
    }
    return true;
}

FarFile* FarFile::other(uint64_t host) {
    std::unique_ptr<FarFile>& file = others_[host];
    if (file) return file.get();
    char address[kAddressMax] = {};
    uint64_t nothing = 0;
    send(far::host, static_cast<int32_t>(host), 0, 0, nullptr, 0);
    push();
    int error = answer(&nothing);
    if (error == 0 && receive(address, sizeof(address)))
        file = open(address, token_, Use::part, "", where_.c_str(), &error);
    if (!file) fail(error != 0 ? error : EPROTO);
    return file.get();
}

void FarFile::read_elsewhere(const std::vector<Elsewhere>& pieces) {
    for (const Elsewhere& piece : pieces) {
        FarFile* const from = other(piece.host);
        if (from == nullptr) return;
        from->read(piece.bytes.place, piece.bytes.memory, piece.bytes.length);
    }
    for (const auto& [host, from] : others_)
        if (const int error = from->settle()) fail(error);
}

// Of bytes that are written, keeps those on this host; false: it has no memory for them.
bool FarFile::keep(uint64_t begin, uint64_t end, const unsigned char* bytes) {
    if (part_->hold(begin, end) != 0) return false;
    memcpy(part_->bytes() + begin, bytes, end - begin);
    send(far::put, 0, begin, end - begin, nullptr, 0);
    return true;
}

void FarFile::write(uint64_t place, const void* memory, size_t length) {
    if (error_ != 0) return;
    if (!asked_.empty()) collect();
    writes_ = true;
    const auto* const bytes = static_cast<const unsigned char*>(memory);
    const uint64_t last = place + length;
    const uint64_t begin = (place + homes::kSector - 1) / homes::kSector * homes::kSector,
                   end = last / homes::kSector * homes::kSector;
    if (part_ == nullptr || end < begin + kWorthKeeping || !keep(begin, end, bytes + (begin - place))) {
        send(far::write, 0, place, length, bytes, length);
        return;
    }
    if (begin > place) send(far::write, 0, place, begin - place, bytes, begin - place);
    if (last > end) send(far::write, 0, end, last - end, bytes + (end - place), last - end);
}

void FarFile::read(uint64_t place, void* memory, size_t length) {
    if (error_ != 0) return;
    send(far::read, 0, place, length, nullptr, 0);
    asked_.push_back({place, static_cast<unsigned char*>(memory), length});
    if (asked_.size() == kMostAsked) collect();
}

void FarFile::gather(std::vector<ByteRange> ranges, unsigned char* memory) {
    if (error_ != 0 || ranges.empty()) return;
    request(ranges);
    gathered_ = std::move(ranges);
    gathers_to_ = memory;
}

void FarFile::request(const std::vector<ByteRange>& gathered) {
    send(far::gather, 0, 0, gathered.size(), gathered.data(), gathered.size() * sizeof(ByteRange));
    push();
}

void FarFile::collect_gathered() {
    std::vector<ByteRange> ranges = std::move(gathered_);
    gathered_.clear();
    for (bool noted = false;; noted = true) {
        uint64_t mended = 0;
        int error = answer(&mended);
        if (error != 0) return fail(error);
        had_changed_ = had_changed_ || mended != 0;
        Pieces pieces;
        for (const ByteRange& range : ranges) pieces.add(gathers_to_ + range.begin, range.end - range.begin);
        error = line_->connection.receive(std::move(pieces));
        if (error == 0) return;
        if (error != EBADMSG) return fail(error);
        std::vector<ByteRange> damaged = far::damaged_bytes(ranges, line_->connection.damaged());
        if (damaged.empty()) return fail(error);
        if (!may_ask_again(damaged, far::length_of(ranges), noted)) return;
        ranges = std::move(damaged);
        request(ranges);
    }
}

int FarFile::settle() {
    if (!gathered_.empty()) collect_gathered();
    if (!asked_.empty()) collect();
    if (writes_ && error_ == 0) {
        uint64_t nothing = 0;
        send(far::settle, 0, 0, 0, nullptr, 0);
        push();
        const int error = answer(&nothing);
        if (error != 0) fail(error);
    }
    writes_ = false;
    in_vain_ = 0;
    return error_;
}

int FarFile::ask(uint32_t what, int32_t kind, uint64_t length, uint64_t* value) {
    if (const int error = settle()) return error;
    send(what, kind, 0, length, nullptr, 0);
    push();
    return answer(value);
}

int FarFile::eof(uint64_t* size) { return ask(far::eof, 0, 0, size); }

int FarFile::lock(short kind) {
    uint64_t nothing = 0;
    return ask(far::lock, kind, 0, &nothing);
}

int FarFile::set_eof(uint64_t size) {
    uint64_t nothing = 0;
    return ask(far::cut, 0, size, &nothing);
}

int FarFile::publish() {
    uint64_t nothing = 0;
    return ask(far::publish, 0, 0, &nothing);
}

std::string FarFile::owners(const std::vector<ByteRange>& bytes) {
    constexpr uint64_t kMost = 1 << 12;
    send(far::owners, 0, 0, bytes.size(), bytes.data(), bytes.size() * sizeof(ByteRange));
    push();
    uint64_t length = 0;
    if (error_ != 0 || answer(&length) != 0 || length > kMost) return "";
    std::string words(length, ' ');
    return receive(words.data(), length) ? words : "";
}

int FarFile::close() {
    uint64_t nothing = 0;
    const int error = ask(far::close, 0, 0, &nothing);
    is_open_ = false;
    return error;
}

}  // namespace wilkins
