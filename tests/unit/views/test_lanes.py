"""Slices in lanes."""

from itertools import pairwise

import numpy as np
import pytest

from scope_views.lanes import Lanes


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("spread", [3, 3000])
def test_slices_in_a_lane_follow_each_other(spread: int, pieces: int) -> None:
    """In no lane of a track slices overlap, also if they come in several calls; there are as many lanes as slices at
    once, and each track has its own."""
    random = np.random.default_rng(4711)
    tracks, begin_ns = random.integers(1, 4, 500), np.sort(random.integers(0, 100 * spread, 500))
    end_ns = begin_ns + random.integers(1, 50, 500)
    lanes, parts = Lanes(), np.array_split(np.arange(500), pieces)
    found = np.concatenate([lanes.of(tracks[part], begin_ns[part], end_ns[part]) for part in parts])
    for track in (1, 2, 3):
        its = tracks == track
        for lane in range(int(found[its].max()) + 1):
            there = its & (found == lane)
            followed = list(pairwise(sorted(zip(begin_ns[there].tolist(), end_ns[there].tolist(), strict=True))))
            assert all(end <= begin for (_, end), (begin, _) in followed)
        at_once = [int((its & (begin_ns <= begin) & (end_ns > begin)).sum()) for begin in begin_ns[its]]
        assert found[its].max() + 1 == max(at_once)


def test_what_comes_late_is_beside() -> None:
    """A slice that began before the last one of the call before ended has another lane."""
    lanes, track = Lanes(), np.array([7])
    given = [(10, 20), (15, 16), (16, 30), (20, 21), (30, 31)]
    assert [int(lanes.of(track, np.array([begin]), np.array([end]))[0]) for begin, end in given] == [0, 1, 1, 0, 0]


def test_nothing_has_no_lane() -> None:
    """Without slices there are no lanes."""
    none = np.zeros(0, np.int64)
    assert Lanes().of(none, none, none).tolist() == []
