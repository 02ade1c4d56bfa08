"""The tree of a flame graph: stacks that begin with the same frames share these frames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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


def shares(tree: Tree) -> Any:
    """Each frame's share of its side, shape (sides, frames), from 0 to 1."""
    return tree.value / np.maximum(tree.value[:, :1], 1)
