"""Turns of machines: none waits for all that another has sent, and a machine whose records fail pays for it."""

import pytest

from scope_proto.scope.v1.record_pb2 import Batch, Record
from scope_server.ingest.pending import Pending
from scope_server.ingest.turns import GROUP_EVENTS, GROUP_RECORDS, Turns
from scope_server.machine import Machine


def _waiting(counts: dict[int, int]) -> Turns:
    """Turns with so many records of each machine, the records of one machine behind those of another."""
    turns = Turns()
    for machine, count in counts.items():
        for number in range(count):
            record = Record(batch=Batch(sequence=number + 1, event_count=1))
            turns.put(Pending(record, Machine(machine, "", "", 0), 1, lambda _: None))
    return turns


def _shown(group: list[Pending]) -> list[tuple[int, int]]:
    return [(pending.machine.key, pending.record.batch.sequence) for pending in group]


def test_a_group_has_records_of_all_machines_in_turn() -> None:
    """A machine that sends much does not fill a group in which others have records; each machine's order stays."""
    turns = _waiting({1: 1000, 2: 2, 3: 1})
    assert _shown(turns.take())[:6] == [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (1, 3)]
    assert _shown(turns.take())[0] == (1, GROUP_RECORDS - 2)


def test_who_had_no_place_in_a_group_is_first_in_the_next() -> None:
    """With more machines than a group has records, the next group begins with those that had no place."""
    turns = _waiting(dict.fromkeys(range(GROUP_RECORDS + 3), 2))
    turns.take()
    assert [machine for machine, _ in _shown(turns.take())][:4] == [GROUP_RECORDS + n for n in range(3)] + [0]


@pytest.mark.parametrize("bad", [0, 1, 100, 255])
def test_what_fails_is_found_by_its_machine_alone(bad: int) -> None:
    """A failed group's machines are taken apart; the group of the one that fails is halved until the record is alone.
    All is stored once, in the order of its machine."""
    turns = _waiting({1: 256, 2: 3, 3: 3})
    stored: list[tuple[int, int]] = []
    tries = 0
    while group := turns.take():
        if (1, bad + 1) not in _shown(group):
            stored += _shown(group)
            turns.stored(group)
        elif len(group) > 1:
            tries += 1
            turns.put_back(group)
        else:
            stored += _shown(group)
    assert sorted(stored) == [(machine, n + 1) for machine, count in ((1, 256), (2, 3), (3, 3)) for n in range(count)]
    assert [one for one in stored if one[0] == 1] == [(1, n + 1) for n in range(256)]
    assert tries <= 18


def test_others_do_not_wait_for_a_machine_whose_records_all_fail() -> None:
    """While every record of a machine fails, every second group is of the others, and its own are of one record."""
    turns = _waiting({1: 500, 2: 500})
    groups = []
    for _ in range(20):
        groups.append(turns.take())
        if len(groups[-1]) > 1 and any(pending.machine.key == 1 for pending in groups[-1]):
            turns.put_back(groups[-1])
        elif groups[-1][0].machine.key == 2:
            turns.stored(groups[-1])
            for pending in groups[-1]:
                turns.put(pending)
    machines = [{pending.machine.key for pending in group} for group in groups]
    assert machines == [{1, 2}, *[{1}, {2}] * 9, {1}]
    assert [len(group) for group in groups[1::2]] == [256, 128, 64, 32, 16, 8, 4, 2, 1, 1]


def test_a_machine_whose_records_are_stored_again_shares_groups() -> None:
    """After as many stored records as a group has, a machine is in groups with others again."""
    turns = _waiting({1: 2, 2: 2})
    turns.put_back(turns.take())
    one, two = turns.take(), turns.take()
    assert [{pending.machine.key for pending in group} for group in (one, two)] == [{1}, {2}]
    turns.stored(one)
    turns.stored(two)
    for pending in (*one, *two):
        turns.put(pending)
    assert len(turns.take()) == 4


def test_groups_are_bounded_by_events() -> None:
    """A group ends before the record that would exceed its events."""
    turns = Turns()
    for machine in (1, 2, 3):
        record = Record(batch=Batch(sequence=1, event_count=GROUP_EVENTS // 2))
        turns.put(Pending(record, Machine(machine, "", "", 0), 1, lambda _: None))
    assert [len(turns.take()) for _ in range(3)] == [2, 1, 0]
