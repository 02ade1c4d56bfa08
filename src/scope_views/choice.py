"""The rows of several streams that the filter of a trace or a task takes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from scope_catalogue.condition import And, Condition, OneOf, Value, columns_read
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.nearest import unknown
from scope_catalogue.options import Option
from scope_catalogue.stream import OF_PROCESS, PROCESS_KEYS, DescribedStream
from scope_catalogue.where import read_filter
from scope_views.matching import matching


class Choice:
    """A filter on the rows of several streams; it selects no rows of streams that lack its columns.

    Args:
        where: the filter; empty: every row is wanted.
        made: columns that must be made, as well as those that the filter reads.

    Raises:
        InvalidFilter: the filter suits none of the streams.
    """

    def __init__(self, where: str, streams: Sequence[DescribedStream], made: Collection[str] = ()) -> None:
        self._streams, self._made = streams, set(made)
        self._conditions: dict[str, Condition] = {}
        self._where = where
        self._not_shown: list[str] = []
        if where:
            self._read()

    def _read(self) -> None:
        refused: list[InvalidFilter] = []
        for stream in self._streams:
            try:
                self._conditions[stream.name] = read_filter(self._where, stream.types)
            except InvalidFilter as error:
                self._not_shown.append(stream.name)
                refused.append(error)
        if refused and not self._conditions:
            raise max(refused, key=lambda error: error.place)  # of the stream that the filter suits best

    def narrowed(self, probe: str, declared: Sequence[Option], options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the probe with this name, as the filter needs them where the user has not chosen.

        The probe makes the columns that the filter reads. If an option, such as `names`, can select the filter's rows,
        the probe records only these rows.

        Raises:
            InvalidFilter: the filter compares a column with a name that does not exist.
        """
        narrowed = dict(options)
        conditions = [
            self._conditions[stream.name]
            for stream in self._streams
            if stream.probe == probe and stream.name in self._conditions
        ]
        for option in declared:
            if options[option.name] != option.default:
                continue
            wanted = [_values(condition, option.column) for condition in conditions]
            if option.column and wanted and all(wanted):
                narrowed[option.name] = _known(option, {str(name) for values in wanted for name in values})
            read = self._made.union(*map(columns_read, conditions))
            needed = {option.makes[name] for name in read & option.makes.keys()}
            if needed:
                narrowed[option.name] = max(needed, key=option.choices.index)
        return narrowed

    def columns(self, stream: DescribedStream, wanted: Collection[str] | None) -> Collection[str] | None:
        """The wanted columns and those that the filter reads, and what it takes to make them; None: all."""
        if wanted is None:
            return None
        names = {*wanted, *self._read_of(stream.name)}
        return names | {*PROCESS_KEYS} if names & OF_PROCESS.keys() else names

    def of_process(self, stream: str) -> frozenset[str]:
        """What the filter reads of the processes of rows, besides columns: the batches of this stream need it."""
        return self._read_of(stream) & OF_PROCESS.keys()

    def _read_of(self, stream: str) -> frozenset[str]:
        return columns_read(self._conditions[stream]) if stream in self._conditions else frozenset()

    def notes(self) -> list[str]:
        """Which streams are not shown at all."""
        if not self._not_shown:
            return []
        return [f"no rows of {', '.join(self._not_shown)} are shown: they have no column for the filter"]

    def of(self, stream: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted, of the stream with this name."""
        if not self._where:
            return batch
        if stream not in self._conditions:
            return batch.slice(0, 0)
        return batch.filter(matching(self._conditions[stream], batch))


def _known(option: Option, names: set[str]) -> tuple[str, ...]:
    if strange := sorted(names - {*option.choices}):
        raise InvalidFilter(f"where: {unknown(option.column, strange[0], option.choices)}")
    return tuple(sorted(names))


def _values(condition: Condition, column: str) -> frozenset[Value]:
    """The values of a column that alone meet the condition; empty: it does not say."""
    match condition:
        case OneOf(name, values) if name == column:
            return frozenset(values)
        case And(terms):
            return next(filter(None, (_values(term, column) for term in terms)), frozenset())
        case _:
            return frozenset()
