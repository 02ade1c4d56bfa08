"""Several sinks as one."""

import errno
from collections.abc import Collection

import pyarrow as pa
import pytest

from scope_catalogue.stream import DescribedStream
from scope_cli.errors import CommandError
from scope_cli.trace.sink import Sinks


class _Ended:
    """A sink whose close raises the given error, or else returns a line."""

    name = "rows.json"

    def __init__(self, error: OSError | None = None) -> None:
        self.error, self.closed = error, 0

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        return ()

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> list[str]:
        self.closed += 1
        if self.error:
            raise self.error
        return [f"line {self.closed}"]


def test_one_that_cannot_be_ended_leaves_no_other_open() -> None:
    """If one sink cannot be closed, such as a closed pipe, all others are still closed."""
    sinks = [_Ended(), _Ended(BrokenPipeError()), _Ended()]
    with pytest.raises(BrokenPipeError):
        Sinks(sinks).close()
    assert [sink.closed for sink in sinks] == [1, 1, 1]
    assert Sinks([sinks[0], sinks[2]]).close() == ["line 2", "line 2"]


def test_an_error_names_the_file() -> None:
    """The error says which file cannot be written, and why."""
    full = _Ended(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(CommandError, match=r"^cannot write rows\.json: No space left on device$"):
        Sinks([full]).close()
