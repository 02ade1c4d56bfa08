"""The outputs of a trace: files, lines or objects on standard output, tables."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from scope_catalogue.nearest import unknown
from scope_catalogue.stream import DescribedStream
from scope_cli.errors import CommandError, UsageError
from scope_cli.trace import STDOUT
from scope_cli.trace.sink import Accounts, Sink
from scope_cli.trace.tables import TableSink, Wanted, headings
from scope_views.tables.tables import takes_groups


@dataclass(frozen=True)
class Outputs:
    """Where rows go; the tables are shown unless lines or objects go to standard output.

    Attributes:
        lines: a line of text per row, on standard output.
        json: the file for a JSON object per row; `STDOUT`: standard output.
        parquet: a Parquet file per stream.
        perfetto: the file for a timeline.
        flamegraph: the file for a flame graph.
        folded: the file for the same as text.
    """

    lines: bool
    json: Path | None
    parquet: Path | None
    perfetto: Path | None
    flamegraph: Path | None
    folded: Path | None
    tables: Wanted

    @property
    def shows_tables(self) -> bool:
        """Whether standard output is for the tables."""
        return not self.lines and self.json != STDOUT

    def check(self, streams: Sequence[tuple[DescribedStream, pa.Schema]]) -> None:
        """Checks that these streams have what the outputs need, before anything is recorded.

        Raises:
            UsageError: two outputs want standard output, no table has the column that sorts, or nothing is for a
                timeline.
        """
        if self.lines and self.json == STDOUT:
            raise UsageError("--lines and --json both write to standard output; give --json a FILE, or leave one out")
        outputs = (self.json, self.parquet, self.perfetto, self.flamegraph, self.folded)
        files = [file for file in outputs if file and file != STDOUT]
        if len({file.resolve() for file in files}) < len(files):
            raise UsageError(f"several outputs go to {files[0]}; give each a file of its own")
        if folder := next((file for file in files if file.is_dir()), None):
            raise UsageError(f"cannot write {folder}: it is a folder; give a file")
        self._check_groups([schema for stream, schema in streams if takes_groups(stream)])
        only = [stream for stream, _ in streams]
        if self.tables.sort and self.tables.sort not in (known := sorted(headings(only, self.tables.by))):
            raise UsageError(f"--sort: {unknown('column', self.tables.sort, known)}")
        if self.perfetto and not any(not stream.shown.timeline.is_empty for stream in only):
            names = ", ".join(stream.name for stream in only)
            raise UsageError(f"--perfetto: a timeline is made of events, and summaries ({names}) have none")

        if (self.flamegraph or self.folded) and not any(stream.shown.flame for stream in only):
            names = ", ".join(stream.name for stream in only)
            raise UsageError(
                f"a flame graph is made of stacks, and there are none in {names}; `scope trace profile` has some"
            )

    def _check_groups(self, schemas: Sequence[pa.Schema]) -> None:
        by, fields = self.tables.by, [field for schema in schemas for field in schema]
        lists = {
            field.name for field in fields if pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type)
        }
        known = {field.name for field in fields} - lists
        if strange := [name for name in by if name not in known]:
            raise UsageError(f"--by: {unknown('column', strange[0], sorted(known))}")
        if by and not any({*schema.names} >= {*by} for schema in schemas):
            raise UsageError(f"--by: no table has all of {', '.join(by)}; name columns of one stream")

    def open(self, streams: Sequence[tuple[DescribedStream, pa.Schema]], accounts: Accounts) -> list[Sink]:
        """The sinks; files are overwritten.

        Raises:
            CommandError: a file cannot be written.
        """
        only = [stream for stream, _ in streams]
        try:
            return [*self._files(streams, accounts), *([TableSink(only, self.tables.by)] if self.shows_tables else [])]
        except OSError as error:
            raise CommandError(f"cannot write {error.filename}: {error.strerror}") from None

    def _files(self, streams: Sequence[tuple[DescribedStream, pa.Schema]], accounts: Accounts) -> list[Sink]:
        sinks: list[Sink] = []
        if self.lines:
            from scope_cli.trace.lines import LinesSink

            sinks.append(LinesSink(sys.stdout.buffer, accounts, [stream.name for stream, _ in streams]))
        if self.json:
            from scope_cli.trace.ndjson import NdjsonSink

            to_stdout = self.json == STDOUT
            file = sys.stdout.buffer if to_stdout else self.json.open("wb")
            sinks.append(NdjsonSink(file, accounts, "" if to_stdout else str(self.json)))
        if self.parquet:
            from scope_cli.trace.parquet import ParquetSink

            sinks.append(ParquetSink(self.parquet, streams))
        if self.perfetto:
            from scope_cli.trace.perfetto import PerfettoSink

            sinks.append(PerfettoSink(self.perfetto, accounts))
        for file, as_text in ((self.flamegraph, False), (self.folded, True)):
            if file:
                from scope_cli.trace.flames import FlameSink

                sinks.append(FlameSink(file, [stream for stream, _ in streams], as_text=as_text))
        return sinks
