// A connection to a server of files, by which one file after another is opened.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "far/connection.hpp"

namespace wilkins::far {

struct Hello;
struct Opened;

// It has shown both sides that they know the run's key. When a file was closed, it waits for this process's next one of
// the same server: to connect takes two or three times as long as a message there and back.
//
// The program may close any descriptor that it has not opened, and get the number for a file of its own; so the
// connection is known by its inode. A fork shares it with the process that made it, and uses another one.
class Line {
public:
    // Says the first words to the server at `where`, and hears its answer. nullptr, with an errno, if it is not to be
    // had, or does not know the key.
    static std::unique_ptr<Line> open(const std::string& where, const Hello& hello, Opened* opened, int* error);
    // For a later file. Call when all has been answered, and nothing has failed.
    static void keep(const std::string& where, std::unique_ptr<Line> line);

    explicit Line(int wire);
    ~Line();
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    int wire() const { return wire_; }
    // False in a fork, and if the program has closed the descriptor.
    bool is_ours() const;

    Connection connection;

private:
    static std::unique_ptr<Line> take(const std::string& where);
    static std::unique_ptr<Line> connect(const std::string& where, const Hello& hello, Opened* opened, int* error);
    int greet(const Hello& hello, Opened* opened);
    bool is_there() const;

    int wire_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
    pid_t process_;
};

}  // namespace wilkins::far
