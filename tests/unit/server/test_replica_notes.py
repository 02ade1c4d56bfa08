"""How old the data of a replica may be, from how far the primary had written its log, and when."""

from scope_server.store.reading.replicas import Note, Notes


def noted(*notes: tuple[float, int]) -> Notes:
    found = Notes()
    for at, position in notes:
        found.add(Note(at, position))
    return found


def test_a_position_has_the_newest_note_that_it_reaches() -> None:
    """Data are as of the last time at which the primary had written no more than the replica has replayed."""
    notes = noted((1, 100), (2, 100), (3, 170), (4, 200))
    assert [notes.as_of(position) for position in (99, 100, 169, 170, 199, 200, 999)] == [None, 2, 2, 3, 3, 4, 4]


def test_a_primary_that_went_back_has_other_notes() -> None:
    """What a primary wrote before it was restored says nothing about its replicas."""
    notes = noted((1, 100), (2, 200), (3, 150))
    assert [notes.as_of(position) for position in (149, 150, 200)] == [None, 3, 3]


def test_a_replica_that_was_ahead_replays_another_log() -> None:
    """Only a note that was made after the replica's answer can show that."""
    assert noted((1, 100), (3, 150)).lack(Note(2, 200))
    assert not noted((1, 100), (3, 200)).lack(Note(2, 200))
    assert not noted((1, 100)).lack(Note(2, 200))
    assert not noted().lack(Note(2, 200))
