// Carries messages by the class that carries steps between hosts, and times each: `crossing receive ADDRESS BYTES`
// prints its port; `crossing send ADDRESS PORT BYTES` sends one for each line that it reads, and prints its seconds,
// and those of CPU time of the sender and of the receiver. With the line `known`, it sends checksums that it has made
// before. `crossing sum` prints how many bytes a second are summed from a cache, and from memory.
//
// With no_checksum.cpp in the place of the layer's checksum.cpp, nothing is summed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "far/checksum.hpp"
#include "far/connection.hpp"

using wilkins::far::Checksum;
using wilkins::far::Connection;

namespace {

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void must(bool done, const char* what) {
    if (done) return;
    perror(what);
    exit(1);
}

sockaddr_in place(const char* address, int port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(port));
    must(inet_pton(AF_INET, address, &at.sin_addr) == 1, address);
    return at;
}

void send_at_once(int wire) {
    const int now = 1;
    setsockopt(wire, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
}

std::vector<char> some_bytes(size_t count) {
    std::vector<char> bytes(count);
    for (size_t k = 0; k < count; ++k) bytes[k] = static_cast<char>(k * 2654435761u >> 13);
    return bytes;
}

int receive(const char* address, size_t count) {
    const int listens = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = place(address, 0);
    socklen_t length = sizeof(at);
    must(bind(listens, reinterpret_cast<sockaddr*>(&at), length) == 0 && listen(listens, 1) == 0, "listen");
    getsockname(listens, reinterpret_cast<sockaddr*>(&at), &length);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    const int wire = accept(listens, nullptr, nullptr);
    must(wire >= 0, "accept");
    send_at_once(wire);
    Connection connection(wire);
    std::vector<char> bytes(count);
    for (double before = cpu_seconds(); connection.receive(bytes.data(), count) == 0; before = cpu_seconds()) {
        const double took = cpu_seconds() - before;
        must(connection.send_words(Connection::one_piece(&took, sizeof(took))) == 0, "answer");
    }
    return 0;
}

int send(const char* address, int port, size_t count) {
    const int wire = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in at = place(address, port);
    must(connect(wire, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0, "connect");
    send_at_once(wire);
    Connection connection(wire);
    const std::vector<char> bytes = some_bytes(count);
    std::vector<uint32_t> sums;
    for (size_t from = 0; from < count; from += Connection::kSummed) {
        Checksum sum;
        sum.add(bytes.data() + from, std::min(Connection::kSummed, count - from));
        sums.push_back(sum.value());
    }
    for (std::string line; std::getline(std::cin, line);) {
        const double began = seconds(), before = cpu_seconds();
        auto all = Connection::one_piece(bytes.data(), count);
        const int error =
            line == "known" ? connection.send_summed(std::move(all), sums) : connection.send_bytes(std::move(all));
        must(error == 0, "send");
        const double sent = cpu_seconds() - before;
        double received = 0;
        must(connection.receive(&received, sizeof(received)) == 0, "the receiver's answer");
        printf("%.9f %.9f %.9f\n", seconds() - began, sent, received);
        fflush(stdout);
    }
    return 0;
}

// Bytes a second, of so many passes over so many bytes.
double rate(size_t count, int passes) {
    const std::vector<char> bytes = some_bytes(count);
    std::vector<double> took;
    for (int pass = 0; pass < passes; ++pass) {
        const double before = cpu_seconds();
        Checksum sum;
        sum.add(bytes.data(), count);
        took.push_back(cpu_seconds() - before + 1e-12 * (sum.value() & 1));  // or the sum could be left out
    }
    std::nth_element(took.begin(), took.begin() + passes / 2, took.end());
    return static_cast<double>(count) / took[static_cast<size_t>(passes) / 2];
}

}  // namespace

int main(int count, char** words) {
    const std::string what = count > 1 ? words[1] : "";
    if (what == "receive" && count == 4) return receive(words[2], strtoull(words[3], nullptr, 10));
    if (what == "send" && count == 5) return send(words[2], atoi(words[3]), strtoull(words[4], nullptr, 10));
    if (what == "sum") return printf("%.0f %.0f\n", rate(Connection::kMostBytes, 2001), rate(size_t{1} << 27, 21)) < 0;
    fprintf(stderr, "crossing: what to do is not understood\n");
    return 2;
}
