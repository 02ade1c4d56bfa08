"""Which frames of the stacks of two samples differ most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scope_views.comparison.compare import Side, Sides, independent_rows
from scope_views.comparison.statistics import Numbers, of_categories

MOST_FRAMES = 10


@dataclass(frozen=True)
class DifferingFrame:
    """A frame that is in the stacks of a larger share of the rows on one side.

    Attributes:
        frame: its key.
        inside, outside: share of the rows with a stack in whose stack it is, 0 to 1.
        sure: how sure it is that chance does not make the difference, 0 to 1.
    """

    frame: int
    inside: float
    outside: float
    sure: float


def differing_frames(column: str, stacks: Mapping[int, Sequence[int]], sides: Sides) -> list[DifferingFrame]:
    """The frames whose shares differ most, and more than chance makes: by the difference times `sure`.

    A frame counts once for a stack, however often it recurs. `sure` is 1 - p, with p of Fisher's exact test times the
    number of frames (Bonferroni).

    Args:
        column: with the keys of stacks; rows without one do not count.
        stacks: the keys of the frames of each stack.
    """
    split = [Side(side.rows.filter(side.rows[column].is_valid()), side.weight, side.cluster) for side in sides]
    one, other = split
    if not one.rows.num_rows or not other.rows.num_rows:
        return []
    both = pa.concat_arrays([side.rows[column].combine_chunks() for side in split]).dictionary_encode()
    codes = np.split(both.indices.to_numpy(), [one.rows.num_rows])
    keys = both.dictionary.to_pylist()
    pairs = [(at, frame) for at, key in enumerate(keys) for frame in {*stacks.get(key, ())}]
    if not pairs:
        return []
    of_stack, frame = np.array(pairs, np.int64).T
    frames, of_frame = np.unique(frame, return_inverse=True)
    shares = [_shares(its, side.weights, len(keys), of_stack, of_frame) for its, side in zip(codes, split, strict=True)]
    order = np.lexsort((frames, -np.abs(shares[0] - shares[1])))[:MOST_FRAMES]
    found = []
    for at in order.tolist():
        has_it = np.zeros(len(keys), bool)
        has_it[of_stack[of_frame == at]] = True
        has = [has_it[its] for its in codes]
        rows = independent_rows((one, other), *has)
        sums = [
            np.array([side.weights[its].sum(), side.weights[~its].sum()]) for its, side in zip(has, split, strict=True)
        ]
        p = of_categories(sums[0], sums[1], rows).p * len(frames)
        if p < 1:
            found.append(DifferingFrame(int(frames[at]), float(shares[0][at]), float(shares[1][at]), 1 - p))
    return sorted(found, key=lambda each: (-abs(each.inside - each.outside) * each.sure, each.frame))


def _shares(codes: Numbers, weights: Numbers, stacks: int, of_stack: Numbers, of_frame: Numbers) -> Numbers:
    """The share of a side's weight of each frame: all stacks that have it."""
    each = np.bincount(codes, weights, stacks)
    shares: Numbers = np.bincount(of_frame, each[of_stack]) / max(each.sum(), 1e-300)
    return shares
