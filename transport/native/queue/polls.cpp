// The state machine of steps, as consumers meet it that do not wait: what a question is answered with.
#include "queue/queue.hpp"

namespace wilkins::queue {

Answer poll(const Board& board, int index, int reader) {
    PortRecord& inport = board.port(index);
    Asked& me = board.asked(inport, reader);
    ++me.questions;
    for (; me.steps < inport.given_end; ++me.steps) {  // another rank has got this step
        if (board.given(inport, me.steps) > me.questions) return Answer::none;
        if (has_choice(board, index, reader)) return Answer::step;
        // Its producer has removed it since.
    }
    if (me.questions <= inport.questions)  // another rank has asked this, and got none
        return inport.ended_at && inport.ended_at <= me.questions ? Answer::ended : Answer::none;
    inport.questions = me.questions;
    if (has_choice(board, index, reader)) return Answer::step;
    if (!has_its_step(board, index, reader) && can_produce(board, index)) {
        want(board, index);
        return Answer::none;
    }
    inport.ended_at = me.questions;
    return Answer::ended;
}

void note_given(const Board& board, PortRecord& inport, int reader, bool polled) {
    Asked& me = board.asked(inport, reader);
    if (me.steps == inport.given_end) {
        board.given(inport, me.steps) = polled ? me.questions : me.questions + 1;  // no question before has this answer
        ++inport.given_end;
    }
    ++me.steps;
}

void note_process(const Board& board, PortRecord& inport, int reader) {
    Asked& me = board.asked(inport, reader);
    const uint32_t process = board.self();
    if (me.process == process) return;
    if (me.process_before == process && !inport.by_turns) inport.shared.fetch_add(1);
    me.process_before = me.process;
    me.process = process;
}

void forget_questions(const Board& board, PortRecord& inport) {
    for (int r = 0; r < board.task(inport.task).nprocs; ++r) board.asked(inport, r) = {};
    for (ListingAnswer& answer : inport.listings) answer = {};
    inport.given_end = 0;
    inport.questions = 0;
    inport.ended_at = 0;
}

}  // namespace wilkins::queue
