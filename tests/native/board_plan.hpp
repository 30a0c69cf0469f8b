// A run that a test makes a board of: what the launcher tells of it, as strings and vectors.
#pragma once

#include <string>
#include <vector>

#include "board/create.hpp"
#include "board/layout.hpp"

namespace wilkins {

struct BoardPlan {
    struct Task {
        std::string name;
        int nprocs;
        Folder folder = {};
    };
    struct Port {
        int task;
        Direction direction;
        std::string pattern;
        uint64_t cap;
        AccessKeys keys = {};
        std::string alias = {};
        bool may_have_alias = false;
    };
    struct Channel {
        int outport;
        int inport;
        uint32_t every;
        uint32_t queue;
        WhenFull when_full;
        int readers;
        bool readers_given = false;
        uint32_t offset = 0;
        uint32_t group = 0;
    };
    std::vector<Task> tasks;
    std::vector<Port> ports;
    std::vector<Channel> channels;
    std::vector<plan::Begin> begins;
    std::vector<plan::FirstStep> first_steps;
    std::string log_file;
    std::string trace_file;
    bool trace_at_once = false;
};

inline int create_board(const char* folder, const BoardPlan& plan) {
    std::vector<plan::BoardTask> tasks;
    std::vector<plan::BoardPort> ports;
    std::vector<plan::BoardChannel> channels;
    tasks.reserve(plan.tasks.size());
    ports.reserve(plan.ports.size());
    channels.reserve(plan.channels.size());
    for (const auto& task : plan.tasks)
        tasks.push_back({task.name.c_str(), task.nprocs, task.folder.device, task.folder.inode});
    for (const auto& port : plan.ports)
        ports.push_back({port.keys, port.task, port.direction, port.pattern.c_str(), port.cap, port.alias.c_str(),
                         port.may_have_alias});
    for (const auto& one : plan.channels)
        channels.push_back({one.outport, one.inport, one.every, one.queue, one.when_full, one.readers,
                            one.readers_given, one.offset, one.group});
    const plan::Arrays run = {
        tasks.data(),
        tasks.size(),
        ports.data(),
        ports.size(),
        channels.data(),
        channels.size(),
        plan.begins.data(),
        plan.begins.size(),
        plan.first_steps.data(),
        plan.first_steps.size(),
        plan.log_file.c_str(),
        plan.trace_file.c_str(),
        plan.trace_at_once,
    };
    return create_board(folder, run);
}

}  // namespace wilkins
