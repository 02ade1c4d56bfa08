"""From stacks with weights to the tree of a flame graph: level by level, with all stacks at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scope_views.flames.ragged import Ragged
from scope_views.flames.tree import Integers, Tree
from scope_views.printable import printable

ROOT = "all"
OTHER = "(other)"
_KERNEL = "_[k]"


@dataclass(frozen=True)
class _Level:
    """The frames of one depth, in order of their parents, then of their labels.

    Attributes:
        parent: the place of each frame's parent in the level above.
        own: what each weighs alone, shape (sides, frames).
    """

    parent: Integers
    label: Integers
    own: Integers


class Stacks:
    """Stacks with their weights, from which a tree is made.

    Args:
        sides: 2 if two sets of stacks are compared.
    """

    def __init__(self, sides: int = 1) -> None:
        self._sides = sides
        self._labels: dict[tuple[str, str], int] = {}
        self._added: list[tuple[int, Ragged, Integers]] = []

    def frame(self, name: str, kind: str = "") -> int:
        """The number of a frame.

        Args:
            kind: what the frame is; empty: a function, and its name says of what.
        """
        key = printable(name), kind
        return self._labels.setdefault(key, len(self._labels))

    def add(self, frames: Ragged | Sequence[Sequence[int]], weights: Integers | Sequence[int], side: int = 0) -> None:
        """Adds the weights of stacks, whose outermost frames are the first. Stacks may be equal: they are added up."""
        rows = frames if isinstance(frames, Ragged) else Ragged.of(frames)
        self._added.append((side, rows, np.asarray(weights, np.int64)))

    def tree(self, title: str = "", unit: str = "") -> Tree:
        """The tree of all stacks that weigh something."""
        ordered = sorted(self._labels)
        rank = np.empty(len(ordered), np.int64)
        rank[np.array([self._labels[key] for key in ordered], np.int64)] = np.arange(1, len(ordered) + 1)
        stacks = Ragged.one_below_the_other([rows for _, rows, _ in self._added])
        weights = np.zeros((self._sides, len(stacks.lengths)), np.int64)
        begin = 0
        for side, _, its in self._added:
            weights[side, begin : begin + len(its)] = its
            begin += len(its)
        level, label, own, value = _depth_first(_levels(Ragged(rank[stacks.flat], stacks.lengths), weights))
        return Tree(
            title,
            unit,
            [ROOT, *(name for name, _ in ordered)],
            ["", *(kind or kind_of(name) for name, kind in ordered)],
            level,
            label,
            own,
            value,
        )


def _levels(stacks: Ragged, weights: Integers) -> list[_Level]:
    """The frames of each depth, from the root on; each stack walks from its outermost frame inwards."""
    label, starts, lengths = stacks.flat, stacks.starts, stacks.lengths
    walking = np.flatnonzero(weights.any(axis=0))
    at = np.zeros(len(lengths), np.int64)  # the place in its level of the frame that each stack has come to
    root = np.zeros(1, np.int64)
    levels = [_Level(root, root, _own(walking[lengths[walking] == 0], at, weights, 1))]
    many = int(label.max(initial=0)) + 1
    depth = 0
    while len(walking := walking[lengths[walking] > depth]):
        key = at[walking] * many + label[starts[walking] + depth]
        order = np.argsort(key, kind="stable")  # fast where much is in order already, as it is from level to level
        walking, key = walking[order], key[order]
        is_new = np.concatenate([[True], key[1:] != key[:-1]])
        at[walking] = np.cumsum(is_new) - 1
        frames = key[is_new]
        depth += 1
        own = _own(walking[lengths[walking] == depth], at, weights, len(frames))
        levels.append(_Level(frames // many, frames % many, own))
    return levels


def _own(ending: Integers, at: Integers, weights: Integers, frames: int) -> Integers:
    """What the frames of a level weigh alone: the weights of the stacks that end at them."""
    own = np.zeros((len(weights), frames), np.int64)
    for side, its in enumerate(weights):
        np.add.at(own[side], at[ending], its[ending])
    return own


def _depth_first(levels: Sequence[_Level]) -> tuple[Integers, Integers, Integers, Integers]:
    """Level, label, own weight and inclusive weight of all frames, in depth-first order."""
    sizes = [np.ones(len(each.label), np.int64) for each in levels]  # frames at and below each
    for below, size, above in zip(levels[:0:-1], sizes[:0:-1], sizes[-2::-1], strict=True):
        np.add.at(above, below.parent, size)
    places = [np.zeros(1, np.int64)]
    for each, size in zip(levels[1:], sizes[1:], strict=True):
        before = np.cumsum(size) - size
        eldest = np.searchsorted(each.parent, each.parent)
        places.append(places[-1][each.parent] + 1 + before - before[eldest])
    place, size = np.concatenate(places), np.concatenate(sizes)
    level = np.repeat(np.arange(len(levels)), [len(each.label) for each in levels])
    order = np.empty(len(place), np.int64)
    order[place] = np.arange(len(place))
    label = np.concatenate([each.label for each in levels])[order]
    own = np.concatenate([each.own for each in levels], axis=1)[:, order]
    sums = np.concatenate([np.zeros((len(own), 1), np.int64), np.cumsum(own, axis=1)], axis=1)
    first = np.arange(len(order))
    return level[order], label, own, sums[:, first + size[order]] - sums[:, first]


def kind_of(name: str) -> str:
    """Whose a function is, by how stacks write it (`scope_bpf.code`): kernel, python, user or unknown."""
    if name.endswith(_KERNEL):
        return "kernel"
    if name == OTHER or name.startswith("["):
        return "unknown"
    return "python" if name.endswith(")") and " (" in name and ":" in name else "user"
