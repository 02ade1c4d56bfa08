"""Selects rows by the filter of `--where`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from scope_bpf.catalogue.probe import Probe
from scope_catalogue.condition import And, Condition, OneOf, Value, columns_read
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.nearest import unknown
from scope_catalogue.options import Option
from scope_catalogue.stream import DescribedStream


class Choice:
    """A filter on the rows of several streams; it selects no rows of streams that lack its columns.

    Args:
        where: the filter; empty: every row is wanted.
        made: columns that must be made, as well as those that the filter reads.

    Raises:
        InvalidFilter: the filter suits none of the streams.
    """

    def __init__(
        self, where: str, streams: Sequence[tuple[DescribedStream, pa.Schema]], made: Collection[str] = ()
    ) -> None:
        self._made = set(made)
        self._conditions: dict[str, Condition] = {}
        self._where = where
        self._not_shown: list[str] = []
        if where:
            self._read(where, streams)

    def _read(self, where: str, streams: Sequence[tuple[DescribedStream, pa.Schema]]) -> None:
        from scope_catalogue.where import read_filter

        refused: list[InvalidFilter] = []
        for stream, _ in streams:
            try:
                self._conditions[stream.name] = read_filter(where, stream.types)
            except InvalidFilter as error:
                self._not_shown.append(stream.name)
                refused.append(error)
        if refused and not self._conditions:
            raise max(refused, key=lambda error: error.place)  # of the stream that the filter suits best

    def narrowed(self, probe: Probe, options: Mapping[str, Any]) -> dict[str, Any]:
        """A probe's options as the filter needs them, where the user has not chosen.

        The probe makes the columns that the filter reads. If an option, such as `names`, can select the filter's rows,
        the probe records only these rows.

        Raises:
            InvalidFilter: the filter compares a column with a name that does not exist.
        """
        narrowed = dict(options)
        streams = probe.streams_of(probe.mode_of(options))
        conditions = [self._conditions[stream.name] for stream in streams if stream.name in self._conditions]
        for option in probe.options:
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
        """The wanted columns and those that the filter reads; None: all."""
        if wanted is None or stream.name not in self._conditions:
            return wanted
        return {*wanted, *columns_read(self._conditions[stream.name])}

    def notes(self) -> list[str]:
        """Which streams are not shown at all."""
        if not self._not_shown:
            return []
        return [f"no rows of {', '.join(self._not_shown)} are shown: they have no column for the filter"]

    def of(self, stream: DescribedStream, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted."""
        if not self._where:
            return batch
        if stream.name not in self._conditions:
            return batch.slice(0, 0)
        from scope_views.matching import matching

        return batch.filter(matching(self._conditions[stream.name], batch))


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
