"""Which rows of several streams a filter selects."""

import pytest

from scope_bpf.catalogue.described import described_stream
from scope_bpf.probes import probe_named
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.options import parse_options
from scope_catalogue.stream import DescribedStream
from scope_views.choice import Choice


def _streams(*probes: str) -> list[DescribedStream]:
    chosen = [probe_named(name) for name in probes]
    return [
        described_stream(probe, stream) for probe in chosen for stream in probe.event_streams if not stream.internal
    ]


def test_streams_without_the_columns_are_not_shown() -> None:
    """Streams without the filter's columns are named; if no stream has the columns, the filter is refused."""
    choice = Choice("path ~ '/etc/*'", _streams("process", "files"))
    assert choice.notes() == ["no rows of exec, fork, exit are shown: they have no column for the filter"]
    with pytest.raises(InvalidFilter, match="no column 'paht'"):
        Choice("paht ~ '/etc/*'", _streams("process", "files"))
    with pytest.raises(InvalidFilter, match="did you mean 'SIGKILL'"):
        Choice("signal = SIGKIL", _streams("process"))  # `exec` has no signal, `exit` has
    assert Choice("", _streams("process", "files")).notes() == []


def test_the_filters_columns_are_made_too() -> None:
    """The columns of the filter are produced in addition to those that a sink reads."""
    (stream,) = _streams("syscalls")
    choice = Choice("ret < 0 and comm = a", [stream])
    assert choice.columns(stream, {"name"}) == {"name", "ret", "comm"}
    assert choice.columns(stream, None) is None


@pytest.mark.parametrize(
    ("where", "given", "recorded"),
    [
        ("name = openat", {}, ("openat",)),
        ("ret < 0 and name in (read, openat)", {}, ("openat", "read")),
        ("name = openat or ret < 0", {}, ()),
        ("not name = openat", {}, ()),
        ("name = openat", {"names": "read"}, ("read",)),
        ("ret < 0", {}, ()),
    ],
)
def test_a_filter_by_name_is_the_kernels(where: str, given: dict[str, str], recorded: tuple[str, ...]) -> None:
    """If only some names can meet the filter, only these are recorded, unless the user chose the names."""
    probe = probe_named("syscalls")
    options = parse_options(probe.options, given)
    assert Choice(where, _streams("syscalls")).narrowed("syscalls", probe.options, options)["names"] == recorded


def test_a_name_that_there_is_not_is_refused() -> None:
    """A filter with an unknown name is refused, since it would find nothing; the message has the nearest name."""
    probe = probe_named("syscalls")
    with pytest.raises(InvalidFilter, match=r"no name 'opnat' \(did you mean 'openat'"):
        choice = Choice("name = opnat", _streams("syscalls"))
        choice.narrowed("syscalls", probe.options, parse_options(probe.options, {}))


@pytest.mark.parametrize(
    ("where", "given", "level"),
    [
        ("path ~ '/etc/*'", {}, "paths"),
        ("args ~ '*O_CREAT*'", {}, "registers"),
        ("args ~ '*x*' or path is null", {}, "paths"),
        ("path ~ '/etc/*'", {"decode": "all"}, "all"),
        ("ret < 0", {}, "none"),
    ],
)
def test_what_a_filter_reads_is_made(where: str, given: dict[str, str], level: str) -> None:
    """Costly columns are produced if the filter reads them, unless the user chose the level."""
    probe = probe_named("syscalls")
    options = parse_options(probe.options, given)
    assert Choice(where, _streams("syscalls")).narrowed("syscalls", probe.options, options)["decode"] == level
