"""The tree of a flame graph: stacks that begin with the same frames share these frames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scope_views.printable import printable

ROOT = "all"
OTHER = "(other)"
_KERNEL = "_[k]"

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tree:
    """Frames in depth-first order, the root first; those below a frame are in order of their labels.

    Attributes:
        labels, kinds: of each label's number; no label has a control character.
        level, label: of each frame: its depth, and the number of its label. Shape (frames,).
        own: what each frame weighs alone, shape (sides, frames): two sides are compared, the first with the second.
        value: what it weighs together with all frames below it.
        unit: of weights: ns, bytes, or empty for counts.
    """

    title: str
    unit: str
    labels: Sequence[str]
    kinds: Sequence[str]
    level: Integers
    label: Integers
    own: Integers
    value: Integers

    def __len__(self) -> int:
        return len(self.level)

    @property
    def sides(self) -> int:
        """1, or 2 if two sides are compared."""
        return len(self.own)

    @property
    def total(self) -> int:
        """The sum of the first side's weights."""
        return int(self.value[0, 0])

    def stacks(self) -> Iterator[tuple[list[int], list[int]]]:
        """Each stack that weighs something alone: its labels' numbers, outermost first, and its weight on each side."""
        path: list[int] = []
        own = self.own.T.tolist()
        for level, label, weights in zip(self.level.tolist(), self.label.tolist(), own, strict=True):
            del path[max(level - 1, 0) :]
            if level:
                path.append(label)
            if any(weights):
                yield list(path), weights


class Stacks:
    """Stacks with their weights, from which a tree is made.

    Args:
        sides: 2 if two sets of stacks are compared.
    """

    def __init__(self, sides: int = 1) -> None:
        self._sides = sides
        self._labels: dict[tuple[str, str], int] = {}
        self._weights: dict[tuple[int, ...], list[int]] = {}

    def frame(self, name: str, kind: str = "") -> int:
        """The number of a frame.

        Args:
            kind: what the frame is; empty: a function, and its name says of what.
        """
        key = printable(name), kind
        return self._labels.setdefault(key, len(self._labels))

    def add(self, frames: tuple[int, ...], weight: int, side: int = 0) -> None:
        """Adds the weight of a stack, whose outermost frame is the first."""
        if frames not in self._weights:
            self._weights[frames] = [0] * self._sides
        self._weights[frames][side] += weight

    def tree(self, title: str = "", unit: str = "") -> Tree:
        """The tree of all stacks."""
        ordered = sorted(self._labels)
        ranks = [0] * len(ordered)
        for rank, key in enumerate(ordered, 1):
            ranks[self._labels[key]] = rank
        found = sorted((tuple(map(ranks.__getitem__, frames)), its) for frames, its in self._weights.items())
        levels, labels = [0], [0]
        weighing: list[int] = []
        before: tuple[int, ...] = ()
        for frames, weights in found:
            shared = _shared(before, frames) if any(weights) else len(frames)
            levels += range(shared + 1, len(frames) + 1)
            labels += frames[shared:]
            weighing.append(len(levels) - 1)
            before = frames if any(weights) else before
        alone = np.zeros((self._sides, len(levels)), np.int64)
        for place, (_, weights) in zip(weighing, found, strict=True):
            alone[:, place] += weights
        level = np.array(levels, np.int64)
        return Tree(
            title,
            unit,
            [ROOT, *(name for name, _ in ordered)],
            ["", *(kind or _kind(name) for name, kind in ordered)],
            level,
            np.array(labels, np.int64),
            alone,
            _inclusive(level, alone),
        )


def _shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many frames two stacks have in common."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1
    return count


def _inclusive(level: Integers, own: Integers) -> Integers:
    """The sums over frames and those below them. A frame's are those that follow it, up to one that is not deeper."""
    count = len(level)
    ends = np.full(count, count, np.int64)
    open_: list[int] = []
    for place, depth in enumerate(level.tolist()):
        while len(open_) > depth:
            ends[open_.pop()] = place
        open_.append(place)
    sums = np.concatenate([np.zeros((len(own), 1), np.int64), np.cumsum(own, axis=1)], axis=1)
    found: Integers = sums[:, ends] - sums[:, :-1]
    return found


def _kind(name: str) -> str:
    """Of a function, by how stacks write it (`scope_bpf.code`)."""
    if name.endswith(_KERNEL):
        return "kernel"
    if name == OTHER or name.startswith("["):
        return "unknown"
    return "python" if name.endswith(")") and " (" in name and ":" in name else "user"


def shares(tree: Tree) -> Any:
    """Each frame's share of its side, shape (sides, frames), from 0 to 1."""
    return tree.value / np.maximum(tree.value[:, :1], 1)
