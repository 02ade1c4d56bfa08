"""The grammar of filters: which texts are accepted, and the errors for all others."""

import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from scope_catalogue.catalogue import streams
from scope_catalogue.codes import Codes
from scope_catalogue.condition import And, Condition, IsNull, Matches, Not, OneOf, Or, Ordered
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.literal import ColumnType, Kind
from scope_catalogue.stream import OF_PROCESS
from scope_catalogue.where import LONGEST, read_filter

COLUMNS = {
    "ret": ColumnType(Kind.WHOLE),
    "nr": ColumnType(Kind.WHOLE, "", 0, 255),
    "duration_ns": ColumnType(Kind.WHOLE, "ns", 0, (1 << 64) - 1),
    "read_ns": ColumnType(Kind.WHOLE, "ns", 0, (1 << 64) - 1),
    "read_bytes": ColumnType(Kind.WHOLE, "bytes", 0, (1 << 64) - 1),
    "bandwidth": ColumnType(Kind.NUMBER, "B/s"),
    "share": ColumnType(Kind.NUMBER, "%"),
    "comm": ColumnType(Kind.TEXT),
    "path": ColumnType(Kind.TEXT),
    "is_async": ColumnType(Kind.TRUTH),
    "latency": ColumnType(Kind.LIST, "ns"),
    "result": ColumnType(Kind.WHOLE, codes=Codes.ERROR),
    "signal": ColumnType(Kind.WHOLE, "", 0, 255, codes=Codes.SIGNAL),
}
FAILED = Ordered("ret", "<=", -1)
GIT = OneOf("comm", ("git",))


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("ret < 0", FAILED),
        ("ret<0", FAILED),
        ("  ( (ret\n<\t0 ) ) ", FAILED),
        ("ret = -2", OneOf("ret", (-2,))),
        ("ret == -2", OneOf("ret", (-2,))),
        ("ret != +2", Not(OneOf("ret", (2,)))),
        ("ret >= 0xff", Ordered("ret", ">=", 255)),
        ("ret > -0x10", Ordered("ret", ">=", -15)),
        ("ret > 1e3", Ordered("ret", ">=", 1001)),
        ("result = -ENOENT", OneOf("result", (-2,))),
        ("result in (-EAGAIN, -EWOULDBLOCK, 3)", OneOf("result", (-11, 3))),
        ("result = -ERESTARTSYS", OneOf("result", (-512,))),
        ("signal != SIGKILL", Not(OneOf("signal", (9,)))),
        ("signal >= SIGRTMIN", Ordered("signal", ">=", 32)),
        ("ret in (1, 2,1)", OneOf("ret", (1, 2))),
        ("ret not in (1)", Not(OneOf("ret", (1,)))),
        ("ret is null", IsNull("ret")),
        ("ret IS NOT NULL", Not(IsNull("ret"))),
        ("latency is null", IsNull("latency")),
        ("comm = 'git'", GIT),
        ('comm = "git"', GIT),
        ("comm = git", GIT),
        ("comm = 'it''s'", OneOf("comm", ("it's",))),
        ('comm = "say ""no"""', OneOf("comm", ('say "no"',))),
        ("comm = ''", OneOf("comm", ("",))),
        ("comm = 12", OneOf("comm", ("12",))),
        ("comm = kworker/0:1-events", OneOf("comm", ("kworker/0:1-events",))),
        ("comm = 'and'", OneOf("comm", ("and",))),
        ("comm in (git, 'a, b')", OneOf("comm", ("git", "a, b"))),
        ("path ~ '/etc/*'", Matches("path", "/etc/%")),
        ("path ~ /etc/*", Matches("path", "/etc/%")),
        ("path !~ '*.so'", Not(Matches("path", "%.so"))),
        ("path ~ 'a?b_50%\\'", Matches("path", "a_b\\_50\\%\\\\")),
        ("path ~ '\\*\\?\\\\\\x'", Matches("path", "*?\\\\\\\\x")),
        ("duration_ns > 1ms", Ordered("duration_ns", ">=", 1_000_001)),
        ("duration > 1ms", Ordered("duration_ns", ">=", 1_000_001)),
        ("duration_ns >= 1.5ms", Ordered("duration_ns", ">=", 1_500_000)),
        ("duration_ns <= 5us", Ordered("duration_ns", "<=", 5_000)),
        ("duration_ns <= 5µs", Ordered("duration_ns", "<=", 5_000)),
        ("duration_ns <= 5μs", Ordered("duration_ns", "<=", 5_000)),
        ("duration_ns < 2s", Ordered("duration_ns", "<=", 1_999_999_999)),
        ("duration_ns < 2m", Ordered("duration_ns", "<=", 119_999_999_999)),
        ("duration_ns = 10ns", OneOf("duration_ns", (10,))),
        ("duration_ns > 0.1ns", Ordered("duration_ns", ">=", 1)),
        ("read_bytes >= 4KiB", Ordered("read_bytes", ">=", 4096)),
        ("read_bytes >= 1M", Ordered("read_bytes", ">=", 1 << 20)),
        ("read_bytes >= 1k", Ordered("read_bytes", ">=", 1024)),
        ("bandwidth > 1.5GiB", Ordered("bandwidth", ">", 1.5 * (1 << 30))),
        ("share < 12.5", Ordered("share", "<", 12.5)),
        ("share = .5", OneOf("share", (0.5,))),
        ("is_async = true", OneOf("is_async", (True,))),
        ("is_async != false", Not(OneOf("is_async", (False,)))),
        ("comm = 'git' and ret < 0", And((GIT, FAILED))),
        ("comm=git AND ret<0 Or nr=1", Or((And((GIT, FAILED)), OneOf("nr", (1,))))),
        ("comm = git and (ret < 0 or nr in (0, 2))", And((GIT, Or((FAILED, OneOf("nr", (0, 2))))))),
        ("not ret < 0 and comm = git", And((Not(FAILED), GIT))),
        ("not (ret < 0 and comm = git)", Not(And((FAILED, GIT)))),
        ("not not ret < 0", Not(Not(FAILED))),
    ],
)
def test_a_filter_is_read(text: str, condition: Condition) -> None:
    """Blanks and the case of keywords do not matter; `not` binds closest, then `and`."""
    assert read_filter(text, COLUMNS) == condition


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("nr < 1.5", Ordered("nr", "<=", 1)),
        ("nr > 1.5", Ordered("nr", ">=", 2)),
        ("nr = 1.5", OneOf("nr", ())),
        ("nr in (1.5, 2, 256, -1)", OneOf("nr", (2,))),
        ("nr < 1000", Ordered("nr", "<=", 255)),
        ("nr <= 255", Ordered("nr", "<=", 255)),
        ("nr > 255", OneOf("nr", ())),
        ("nr < 0", OneOf("nr", ())),
        ("nr >= -5", Ordered("nr", ">=", 0)),
        ("nr = 256", OneOf("nr", ())),
        ("duration_ns > 18446744073709551615", OneOf("duration_ns", ())),
        ("duration_ns = 18446744073709551615", OneOf("duration_ns", ((1 << 64) - 1,))),
    ],
)
def test_values_are_brought_within_the_column(text: str, condition: Condition) -> None:
    """A value outside the column's range is replaced by a condition within the range, so nothing overflows later."""
    assert read_filter(text, COLUMNS) == condition


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "where, at its end: a column is missing"),
        ("   ", "where, at its end: a column is missing"),
        ("ret", "where, at its end: after 'ret' one of = == != < <= > >= ~ !~, 'in' or 'is' is missing"),
        ("ret <", "where, at its end: a value is missing"),
        ("ret < foo", "where, character 7: ret takes a whole number, not 'foo'"),
        ("ret < '5'", "where, character 7: ret is a whole number; write it without quotes"),
        ("ret < 1ms", "where, character 7: ret takes a whole number, not '1ms'"),
        ("ret = -ENOENT", "where, character 7: ret takes a whole number, not '-ENOENT'"),
        (
            "result = ENOENT",
            "where, character 10: result takes a whole number or a name such as -ENOENT, not 'ENOENT' "
            "(did you mean '-ENOENT'",
        ),
        ("signal = KILL", "signal takes a whole number or a name such as SIGKILL, not 'KILL' (did you mean 'SIGKILL'"),
        ("ret < 0x", "ret takes a whole number, not '0x'"),
        ("ret < 1_000", "ret takes a whole number, not '1_000'"),
        ("ret < ١", "ret takes a whole number, not '١'"),
        ("ret < 1e999", "where, character 7: '1e999' is too large"),
        ("ret < " + "9" * 3000, f"ret takes a whole number, not '{'9' * 40}…'"),
        ("share < nan", "share takes a number, not 'nan'"),
        ("duration > 1KiB", "duration_ns takes a whole number or a duration such as 1.5ms, not '1KiB'"),
        ("read_bytes > 1ms", "read_bytes takes a whole number or a size such as 4KiB, not '1ms'"),
        ("pth = 3", "where, character 1: no column 'pth' (did you mean 'path'?); there are: ret, nr, duration_ns,"),
        ("xyz = 3", "where, character 1: no column 'xyz'; there are: ret, nr, duration_ns,"),
        ("read > 1", "where, character 1: no column 'read' (did you mean 'read_ns'"),
        ("(ret = 1 or durration > 1)", "where, character 13: no column 'durration' (did you mean 'duration_ns'?)"),
        ("comm < 'a'", "where, character 6: '<' is for numbers, and comm is a text; use =, !=, ~, !~ or in"),
        ("is_async > true", "'>' is for numbers, and is_async is true or false"),
        ("is_async = 1", "where, character 12: is_async takes true or false, not '1'"),
        ("ret ~ '1*'", "where, character 5: '~' is for texts, and ret is a whole number"),
        ("latency = 1", "latency is a list; only 'is null' and 'is not null' can be asked of it"),
        ("comm = null", "where, character 8: a comparison with null is never true; write 'comm is null'"),
        ("comm is 'git'", "where, character 9: 'null' is missing after 'is'"),
        ("comm = and", "where, character 8: a value is missing before 'and'; a text that is a keyword needs quotes"),
        ("comm = 'git", "where, character 8: the quote is not closed"),
        ("comm = 'it''s", "where, character 8: the quote is not closed"),
        ("comm 'git'", "where, character 6: after 'comm' one of ="),
        ("'comm' = git", "where, character 1: a column is missing before"),
        ("= 3", "where, character 1: a column is missing before '='"),
        ("ret = 1 ret = 2", "where, character 9: 'ret' is not expected; join comparisons with 'and' or 'or'"),
        ("ret = 1)", "where, character 8: ')' is not expected"),
        ("(ret = 1", "where, at its end: ')' is missing, for the '(' of character 1"),
        ("ret in 1", "where, character 8: '(' is missing after 'in'"),
        ("ret in ()", "where, character 9: a value is missing before ')'"),
        ("ret in (1 2)", "where, character 11: ')' is missing, for the '(' of character 8"),
        ("ret not = 1", "where, character 9: after 'ret' one of"),
        ("ret = 1 and", "where, at its end: a column is missing"),
        ("ret ! 1", "where, character 5: '!' is no operator"),
        ("ret = 1; DROP TABLE store.names", "ret takes a whole number, not '1;'"),
        ("comm = 'a\0b'", "where, character 8: it has a NUL"),
        ("comm = a\ud800", "or what is no character of UTF-8"),
        ("x" * (LONGEST + 1), "where: 4097 characters are too many; at most 4096 are taken"),
        ("(" * 2000, "where, character 33: the filter is nested more than 32 deep"),
        ("not " * 1000, "the filter is nested more than 32 deep"),
        (" or ".join(["nr=1"] * 65), "the filter has more than 64 comparisons"),
        ("comm ~ '" + "*a" * 33 + "'", "where, character 8: the pattern has more than 32 '*'"),
    ],
)
def test_what_is_no_filter_is_refused(text: str, said: str) -> None:
    """The error is one short line with the position and the reason, also for hostile texts."""
    with pytest.raises(InvalidFilter) as refused:
        read_filter(text, COLUMNS)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_what_is_as_large_as_may_be_is_taken() -> None:
    """A filter exactly at the limits of depth, comparisons and '*' in a pattern is accepted."""
    read_filter("(" * 32 + "nr=1" + ")" * 32, COLUMNS)
    read_filter(" or ".join(["nr=1"] * 64), COLUMNS)
    read_filter("comm ~ '" + "*a" * 32 + "\\*?" * 1000 + "'", COLUMNS)
    values = ",".join(str(n % 10) for n in range(2000))
    assert read_filter(f"nr in ({values})", COLUMNS) == OneOf("nr", tuple(range(10)))


def test_a_condition_does_not_change() -> None:
    """A condition is immutable and hashable; equal filters have equal hashes."""
    condition: Any = read_filter("comm = git and nr in (1, 2)", COLUMNS)
    assert hash(condition) == hash(read_filter("comm=git and (nr in (1,2))", COLUMNS))
    with pytest.raises(FrozenInstanceError):
        condition.terms = ()


def test_every_stream_can_be_filtered() -> None:
    """Every column can be used in a filter. Its type, bounds and unit are those of the catalogue."""
    for stream in streams().values():
        of_process = OF_PROCESS if "start_ns" in stream.by_name and "cgroup_id" in stream.by_name else ()
        assert list(stream.types) == [*stream.by_name, *of_process]
        for name in stream.types:
            read_filter(f"{name} is null", stream.types)
    columns = streams()["syscall"].types
    assert columns["duration_ns"] == ColumnType(Kind.WHOLE, "ns", 0, (1 << 64) - 1)
    assert columns["ret"] == ColumnType(Kind.WHOLE, "", -(1 << 63), (1 << 63) - 1, Codes.ERROR)
    assert columns["name"].kind is Kind.TEXT


def test_a_filter_is_read_without_arrow() -> None:
    """Reading a filter does not import pyarrow or numpy, which are slow: a wrong filter is refused at once."""
    code = """
import sys
from scope_catalogue.literal import ColumnType, Kind
from scope_catalogue.where import read_filter
read_filter("comm = git", {"comm": ColumnType(Kind.TEXT)})
sys.exit("pyarrow" in sys.modules or "numpy" in sys.modules)"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
