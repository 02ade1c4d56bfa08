"""The file whose code was at an address at a given time, in running and ended processes."""

from typing import Any

import numpy as np

from scope_bpf.code.history import History, Mapped

FILES: list[Any] = [object() for _ in range(3)]


def test_an_address_is_what_was_mapped_last_by_then() -> None:
    """A new mapping replaces an older one only for times after the new mapping."""
    history = History()
    process = history.begin(7, 100)
    history.add(process, Mapped(110, 0x1000, 0x2000, 0, FILES[0]))
    history.add(process, Mapped(130, 0x1800, 0x2800, 0, FILES[1]))

    def at(address: int, time_ns: int) -> Any:
        found = process.at(address, time_ns)
        return found and found.module

    assert [at(0x1900, time_ns) for time_ns in (109, 110, 129, 130)] == [None, FILES[0], FILES[0], FILES[1]]
    assert (at(0x1000, 140), at(0x27FF, 140), at(0x2800, 140)) == (FILES[0], FILES[1], None)


def test_names_of_an_address_have_ages() -> None:
    """The age of a process's addresses grows when code of another file replaces a mapping."""
    history = History()
    process = history.begin(7, 100)
    for since_ns, file in ((110, 0), (120, 0), (130, 1), (140, 0)):
        history.add(process, Mapped(since_ns, 0x1000, 0x2000, 0, FILES[file]))
    assert [process.age_at(time_ns) for time_ns in (0, 110, 120, 129, 130, 140)] == [0, 0, 0, 0, 1, 2]
    assert history.has_replaced
    rows = np.zeros(4, [("pid", "i4"), ("start_ns", "u8"), ("ktime_ns", "u8")])
    rows["pid"], rows["start_ns"], rows["ktime_ns"] = (7, 7, 8, 7), 90, (129, 130, 140, 140)
    assert history.ages(rows).tolist() == [0, 1, 0, 2]


def test_a_child_has_what_its_parent_had() -> None:
    """A child starts with its parent's mappings. After the fork, each has its own."""
    history = History()
    parent = history.begin(7, 100)
    history.add(parent, Mapped(110, 0x1000, 0x2000, 0, FILES[0]))
    child = history.begin(8, 120, parent)
    history.add(parent, Mapped(130, 0x3000, 0x4000, 0, FILES[1]))
    history.add(child, Mapped(130, 0x3000, 0x4000, 0, FILES[2]))
    assert [process.at(0x1000, 140) is not None for process in (parent, child)] == [True, True]
    assert [process.at(0x3000, 140).module for process in (parent, child)] == FILES[1:]  # type: ignore[union-attr]


def test_a_pid_that_is_used_again_is_another_process() -> None:
    """Processes with the same pid are found by their start time. An ended process is forgotten after a while."""
    history = History()
    first = history.begin(7, 100)
    history.add(first, Mapped(110, 0x1000, 0x2000, 0, FILES[0]))
    history.end(first)
    second = history.begin(7, 200)
    assert (history.find(7, 99), history.find(7, 150), history.find(7, 201)) == (first, second, None)
    history.forget(1000.0)
    assert (history.is_used(FILES[0]), len(history)) == (True, 2)
    history.forget(-1.0)
    assert (history.find(7, 99), history.is_used(FILES[0]), len(history)) == (second, False, 1)
    history.end(second)
    history.forget(-1.0)
    assert len(history) == 0


def test_what_was_unmapped_is_forgotten_a_while_later() -> None:
    """Unmapped code is forgotten after a while, so a process that keeps loading libraries needs no more memory."""
    history = History()
    process = history.begin(7, 100)
    history.add(process, Mapped(110, 0x1000, 0x2000, 0, FILES[0]))
    history.add(process, Mapped(120, 0x3000, 0x4000, 0x1000, FILES[1]))
    history.prune(process, {0x1000}, grace_s=1000.0)
    assert process.at(0x3000, 130), "rows of that time may be on their way"
    history.prune(process, {0x1000}, grace_s=-1.0)
    assert not process.at(0x3000, 130)
    assert (history.is_used(FILES[0]), history.is_used(FILES[1])) == (True, False)
    for number in range(1000):
        history.add(process, Mapped(200 + number, 0x5000 + number * 0x1000, 0x6000 + number * 0x1000, 0, FILES[2]))
    assert history.is_to_be_looked_at(process)
    history.prune(process, {0x1000}, grace_s=-1.0)
    assert len(process.mapped) == 1
    assert not history.is_to_be_looked_at(process)
