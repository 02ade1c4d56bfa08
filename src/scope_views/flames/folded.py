"""The stacks of a stream's rows with their weights, added up batch by batch."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import DescribedStream
from scope_views.chosen import Chosen
from scope_views.errors import NothingToShow
from scope_views.flames.stacks import OTHER, Stacks
from scope_views.flames.tree import Tree
from scope_views.printable import printable

MOST_STACKS = 100_000  # memory stays bounded: beyond this, the lighter half is added up as one


class Folded:
    """The stacks of one stream. Work is per batch and per distinct stack; of states, per row, and the latest weighs.

    Raises:
        NothingToShow: the stream has no stacks.
        InvalidView: a filter does not suit the stream.
    """

    def __init__(self, stream: DescribedStream) -> None:
        flame = stream.shown.flame
        if flame is None:
            raise NothingToShow(f"a flame graph is made of stacks, and {stream.name} has none")
        self._flame = flame
        self.title = printable(flame.title or stream.meaning)
        self.unit = stream.by_name[flame.weight].unit if flame.weight else ""
        self._weights: Counter[tuple[str, ...]] = Counter()
        self._chosen = Chosen(stream, flame.where)
        # Tells states apart; the text of a stack may change, while it is the same state.
        self._state = ("pid", "start_ns", *stream.latest.key) if stream.latest else ()
        self._states: dict[tuple[Any, ...], tuple[tuple[str, ...], int]] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        flame = self._flame
        weight = (flame.weight,) if flame.weight else ()
        return (*self._state, *flame.by, "stack", *flame.below, *weight, *self._chosen.columns)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the rows that have a stack."""
        flame = self._flame
        chosen = pc.and_(pc.is_valid(batch["stack"]), self._chosen.mask(batch))
        names = (*flame.by, "stack", *flame.below)
        texts = [pc.fill_null(pc.cast(batch[name], pa.string()), "") for name in names]
        table = pa.table([*texts, self._weight(batch)], [*names, "weight"]).filter(chosen)
        if self._state:
            self._replace(table, batch.select(dict.fromkeys(self._state)).filter(chosen))
            return
        summed = table.group_by(list(names)).aggregate([("weight", "sum")])
        for *frames, weight in zip(*(summed[name].to_pylist() for name in (*names, "weight_sum")), strict=True):
            self._weights[tuple(frames)] += weight or 0
        if len(self._weights) > MOST_STACKS:
            self._shrink()

    def _replace(self, table: pa.Table, states: pa.RecordBatch) -> None:
        """Sets the weights of states to the latest ones."""
        keys = zip(*(column.to_pylist() for column in states.columns), strict=True)
        for key, *frames, weight in zip(keys, *(column.to_pylist() for column in table.columns), strict=True):
            before, had = self._states.pop(key, ((), 0))
            self._weights[before] -= had
            if weight:
                self._states[key] = tuple(frames), weight
                self._weights[tuple(frames)] += weight
        self._weights = +self._weights

    def _weight(self, batch: pa.RecordBatch) -> pa.Array:
        if not self._flame.weight:
            return pa.repeat(1, batch.num_rows)
        return pc.cast(batch[self._flame.weight], pa.int64())

    def _shrink(self) -> None:
        kept = Counter(dict(self._weights.most_common(MOST_STACKS // 2)))
        kept[(OTHER,)] += self.total - kept.total()
        self._weights = kept

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return self._weights.total()

    def tree(self) -> Tree:
        """The tree of all stacks that weigh something."""
        stacks = Stacks()
        stacks.add([self._frames(stacks, texts) for texts in self._weights], list(self._weights.values()))
        return stacks.tree(self.title, self.unit)

    def _frames(self, stacks: Stacks, texts: tuple[str, ...]) -> list[int]:
        if texts == (OTHER,):
            return [stacks.frame(OTHER)]
        flame, frames = self._flame, list[int]()
        for place, (kind, text) in enumerate(zip((*flame.by, "", *flame.below), texts, strict=True)):
            names = text.split(";") if place == len(flame.by) else [text]
            frames += [stacks.frame(name, kind) for name in names if name]
        return frames
