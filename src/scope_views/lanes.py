"""Slices of one track that may overlap, in lanes: those in a lane follow each other."""

from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[Any]]


class Lanes:
    """The lanes of tracks, whose slices may come in several calls."""

    def __init__(self) -> None:
        self._ends: dict[int, list[int]] = {}  # of a track, the latest end in each lane

    def of(self, tracks: Numbers, begin_ns: Numbers, end_ns: Numbers) -> Numbers:
        """The lane of each slice on its track, shape (slices,): the first one that is free; of most tracks, 0."""
        order = np.lexsort((begin_ns, tracks))
        lanes = np.zeros(len(order), np.int64)
        found, firsts = np.unique(tracks[order], return_index=True)
        behind = np.append(firsts, len(order))[1:]
        for track, first, end in zip(found.tolist(), firsts, behind, strict=True):
            places = order[first:end]
            lanes[places] = self._of_track(track, begin_ns[places], end_ns[places])
        return lanes

    def _of_track(self, track: int, begin_ns: Numbers, end_ns: Numbers) -> int | list[int]:
        """Those of slices in order of their begins."""
        ends = self._ends.setdefault(track, [0])
        if begin_ns[0] >= ends[0] and (begin_ns[1:] >= end_ns[:-1]).all():
            ends[0] = int(end_ns[-1])
            return 0
        busy = [(end, lane) for lane, end in enumerate(ends)]
        heapify(busy)
        free: list[int] = []
        lanes = []
        for begin, end in zip(begin_ns.tolist(), end_ns.tolist(), strict=True):
            while busy and busy[0][0] <= begin:
                heappush(free, heappop(busy)[1])
            lane = heappop(free) if free else len(ends)
            ends[lane : lane + 1] = [end]
            heappush(busy, (end, lane))
            lanes.append(lane)
        return lanes
