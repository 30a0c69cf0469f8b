"""Which of the steps that are held in memory go to storage, and which never do."""

from __future__ import annotations

import threading
from typing import Any

from support.running import wait_for
from wilkins.tasks.checkpoint.stream.window import Held, Window


class Memory:
    """Stands for a step's memory."""

    def __init__(self, index: int) -> None:
        self.name, self.sequence, self.address, self.size, self.open = f"step{index}.h5", index, 0, 0, True

    def close(self) -> None:
        assert self.open
        self.open = False


def steps(count: int, due: Any = lambda _: True) -> list[Held]:
    return [Held(Memory(index), index, due(index)) for index in range(count)]


def is_open(held: Held) -> bool:
    assert isinstance(held.step, Memory)
    return held.step.open


def stored(window: Window) -> list[int]:
    """Stores all that is to be stored."""
    found = []
    while (held := window.next()) is not None:
        assert is_open(held)
        found.append(held.index)
        window.done(held, stored=True)
    return found


def test_the_oldest_are_left_out_and_let_go_of_when_storage_is_slow() -> None:
    window, all_steps = Window(2, block=False), steps(6)
    window.add(all_steps[0])
    first = window.next()
    assert first is all_steps[0]
    for held in all_steps[1:]:
        window.add(held)
    assert [is_open(held) for held in all_steps] == [True, False, False, False, True, True]  # the first is being stored
    assert window.left_out == 3
    window.done(first, stored=True)
    assert not is_open(first)
    window.end()
    assert stored(window) == [4, 5]


def test_the_last_is_stored_though_it_was_not_due() -> None:
    window = Window(3, block=False)
    for held in steps(8, lambda index: index % 5 == 0):
        window.add(held)
    window.end()
    assert stored(window) == [5, 7]
    assert window.left_out == 1


def test_a_program_that_may_wait_leaves_nothing_out() -> None:
    window, all_steps = Window(2, block=True), steps(30)

    def take() -> None:
        for held in all_steps:
            window.add(held)
        window.end()

    taker = threading.Thread(target=take)
    taker.start()
    wait_for(lambda: window.last is all_steps[1], 20, "two are held")
    assert not any(held.step.address for held in all_steps)
    assert stored(window) == list(range(30))
    taker.join(20)
    assert window.left_out == 0
    assert [is_open(held) for held in all_steps] == [False] * 28 + [True] * 2


def test_in_a_hurry_the_newest_counts_and_nobody_waits() -> None:
    window, all_steps = Window(4, block=True), steps(7)
    for held in all_steps[:4]:
        window.add(held)
    first = window.next()
    window.hurry()
    for held in all_steps[4:]:
        window.add(held)  # though there is no room
    assert first is not None
    window.done(first, stored=True)
    assert stored(window) == [6]  # and it ends, though more steps might come
    assert window.left_out == 5


def test_the_last_gets_another_chance_when_it_could_not_be_stored() -> None:
    for works in (True, False):
        window, [held] = Window(2, block=False), steps(1)
        window.add(held)
        assert window.next() is held
        window.done(held, stored=False)
        window.end()
        assert window.next() is held
        window.done(held, stored=works)
        assert window.next() is None
        assert held.stored is works
