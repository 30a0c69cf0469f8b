// What the server of files answers a rank on another host.
#pragma once

#include <cstdint>
#include <vector>

#include "far/connection.hpp"
#include "far/far_wire.hpp"
#include "steps/step_file.hpp"
#include "store/far_server.hpp"

namespace wilkins::far {

// Those that return bool: false if the connection is broken, or can be used no more.

bool answer(Connection& rank, int error, uint64_t value, bool more = false);

// Something that a rank has written was damaged on its way: the step is not whole.
void mark_damaged(const StepFile& step);

// Takes what is written, straight into the step's memory. What cannot be written is taken all the same.
bool take_write(Connection& rank, StepFile* step, const Request& request, int* error);

bool take_ranges(Connection& rank, uint64_t count, std::vector<ByteRange>* ranges);

bool give_ranges(Connection& rank, const unsigned char* bytes, const std::vector<ByteRange>& ranges);

// Of a step that is read: what one question asks for.
bool give_gathered(Connection& rank, StepFile* step, uint64_t count);

// `number`: of the host of the rank that asks, which can read what hosts have by itself; 0: it cannot.
bool give_read(Connection& rank, StepFile* step, const Request& request, uint64_t number);

bool give_address(Connection& rank, const StepFile* step, int32_t number);

// Nothing is brought for it: who asks may have the table of what is elsewhere.
bool give_owners(Connection& rank, const StepFile* step, uint64_t count, Owners owners);

}  // namespace wilkins::far
