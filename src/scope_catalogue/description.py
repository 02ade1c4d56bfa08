"""Reads the description of a stream that another machine sent: nothing in it is trusted.

Names are such that SQL may quote them and tables be called by them. Texts are for people and may be of any language.
"""

import json
import re
from collections.abc import Iterator

from scope_catalogue.encoding import from_json, to_json
from scope_catalogue.errors import InvalidDescription
from scope_catalogue.stream import DescribedStream

MOST_BYTES = 128 << 10
MOST_COLUMNS = 250
MOST_TEXT = 1000  # characters
_STREAM = re.compile(r"[a-z][a-z0-9_]{0,53}")  # the table of a day has 9 more characters
_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,54}")  # the rollup has a column with 7 more
# Streams own scope.NAME_minutes and the like; fresh.NAME_20260131 is a day of NAME.
_DERIVED = re.compile(
    r".*_(seconds|minutes|hours|histogram|totals|steps|distribution|buckets|flames|now|largest|[0-9]{8})"
)
_TYPES = {"ktime_ns": "uint64", "start_ns": "uint64", "pid": "int32"}  # of columns that the server itself reads


def written(stream: DescribedStream) -> bytes:
    """A stream's description, to be sent."""
    return json.dumps(to_json(stream)).encode()


def read(data: bytes) -> DescribedStream:
    """The stream that a description describes.

    Raises:
        InvalidDescription: the description is too long, is not JSON, or has a name, text or type that is not allowed.
    """
    if len(data) > MOST_BYTES:
        raise InvalidDescription(f"a description of {len(data)} bytes; at most {MOST_BYTES} are allowed")
    try:
        stream = from_json(DescribedStream, json.loads(data))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidDescription):
            raise
        raise InvalidDescription(f"not valid JSON: {str(error)[:MOST_TEXT]}") from None
    for complaint in _complaints(stream):
        raise InvalidDescription(complaint)
    return stream


def _complaints(stream: DescribedStream) -> Iterator[str]:
    if not _STREAM.fullmatch(stream.name) or _DERIVED.fullmatch(stream.name):
        yield f"a stream cannot be named {_quoted(stream.name)}"
    if not _STREAM.fullmatch(stream.probe):
        yield f"a probe cannot be named {_quoted(stream.probe)}"
    if not 0 < len(stream.columns) <= MOST_COLUMNS:
        yield f"{len(stream.columns)} columns; 1 to {MOST_COLUMNS} are allowed"
    if len(stream.by_name) < len(stream.columns):
        yield "two columns have the same name"
    for column in stream.columns:
        if not _COLUMN.fullmatch(column.name):
            yield f"a column cannot be named {_quoted(column.name)}"
        if column.type != _TYPES.get(column.name, column.type):
            yield f"column '{column.name}' is {_quoted(column.type)}, not {_TYPES[column.name]}"
    if "ktime_ns" not in stream.by_name:
        yield "column 'ktime_ns' is missing"
    if ("pid" in stream.by_name) != ("start_ns" in stream.by_name):
        yield "of columns 'pid' and 'start_ns', one is missing"
    texts = (stream.meaning, *(text for each in stream.columns for text in (each.meaning, each.unit, each.type)))
    if any(len(text) > MOST_TEXT or not text.isprintable() for text in texts):
        yield f"a text has more than {MOST_TEXT} characters, or some that cannot be printed"


def _quoted(name: str) -> str:
    return repr(name[:60])
