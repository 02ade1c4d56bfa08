"""The catalogue: every probe's definition agrees with its compiled object."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from scope_bpf import probes as found
from scope_bpf.catalogue import probe as catalogue
from scope_bpf.catalogue.described import described_stream
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import Stream
from scope_bpf.errors import LayoutMismatch
from scope_bpf.probes import probe_named, probes
from scope_catalogue.errors import UnknownProbe
from scope_catalogue.stream import COMMON, Column, Mode, fingerprint
from scope_views.chosen import Chosen
from scope_views.flames.folded import Folded
from scope_views.tables.tables import Tables

ALL = list(probes().values())
STREAMS = [(probe, stream) for probe in ALL for stream in probe.streams]
every_probe = pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.name)
every_stream = pytest.mark.parametrize(("probe", "stream"), STREAMS, ids=[stream.name for _, stream in STREAMS])


def test_probes_are_found_not_listed() -> None:
    """Every module or package is a probe. Every probe except samplers has an object, and every object a probe; but
    for the paths of cgroups, which all tracers share."""
    modules = {path.stem for path in Path(found.__file__).parent.glob("[a-z]*")}
    objects = {path.name.removesuffix(".bpf.o") for path in catalogue.OBJECTS.glob("*.bpf.o")}
    assert set(probes()) == modules
    assert {probe.name for probe in ALL if not probe.sampler} == objects - {"cgroups"}


def test_the_catalogue_needs_neither_extension_nor_privileges() -> None:
    """Names, columns and options are known without the extension, which loads BPF objects."""
    script = (
        "import os, sys; sys.modules['scope_bpf.binding._native'] = None\n"
        "from scope_bpf.probes import probes\n"
        "all_ = [probe.schema(stream) for probe in probes().values() for stream in probe.streams]\n"
        "assert 'scope_bpf.binding.ffi' not in sys.modules and all(all_)\n"
        "assert all(probe.options for probe in probes().values())"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@every_probe
def test_a_probe_says_what_it_is(probe: Probe) -> None:
    """A probe has a snake_case name, a meaning, and a sampler or programs that are in its object."""
    assert re.fullmatch(r"[a-z][a-z0-9_]*", probe.name)
    assert probe.meaning
    assert bool(probe.alternatives) != bool(probe.sampler)
    for alternative in probe.alternatives:
        assert alternative.name
        assert all(re.search(rb"\0" + program.encode() + rb"\0", probe.elf) for program in alternative.programs)
    assert all(option.meaning for option in probe.options)
    given = [option for option in probe.options if option.default != ()]  # no names: a default, but no valid input
    assert all(option.parse(option.default) == option.default for option in given)


@every_probe
def test_a_summary_can_be_chosen_of_events_that_have_one(probe: Probe) -> None:
    """Not if there are only states beside the events, which are recorded in every mode."""
    modes = {stream.mode for stream in probe.public_streams if not stream.is_gauge}
    assert ("mode" in [option.name for option in probe.options]) == (modes == {Mode.EVENTS, Mode.SUMMARY})


@every_stream
def test_a_stream_is_what_its_struct_is(probe: Probe, stream: Stream) -> None:
    """The columns are the struct's fields, and each has a meaning. The mode's common columns come first."""
    schema = probe.schema(stream)
    implied = stream.implied
    assert schema.names[: len(implied)] == list(implied)
    assert schema.names == list(stream.described())
    assert all(column.meaning for column in stream.described().values())
    assert not set(stream.hidden) & set(schema.names)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", stream.name)


@every_stream
def test_common_columns_are_known_as_such(probe: Probe, stream: Stream) -> None:
    """The catalogue's data names all columns that streams have in common."""
    assert {*probe.schema(stream).names[: len(stream.implied)]} <= COMMON


@every_stream
def test_a_unit_is_in_the_name(probe: Probe, stream: Stream) -> None:
    """The name of a column in nanoseconds or bytes ends with the unit, except for histograms."""
    types = {field.name: field.type for field in probe.schema(stream)}
    for name, column in stream.described().items():
        if column.unit in ("ns", "bytes") and not pa.types.is_fixed_size_list(types[name]):
            assert name == column.unit or name.endswith(f"_{column.unit}")


@every_stream
def test_what_is_shown_suits_the_stream(probe: Probe, stream: Stream) -> None:
    """Every column and filter of its tables, graph, timeline and lines, and every label, is one of the stream."""
    described = described_stream(probe, stream)
    names = set(described.by_name)
    assert {name for view in Tables([described]).views for name in view.columns} <= names
    shown = stream.shown
    if shown.flame:
        assert set(Folded(described).columns) - {"pid", "start_ns"} <= names
    for slices in shown.timeline.slices:
        used = {*slices.named, *slices.on, *filter(None, (slices.lasting,))}
        assert used | Chosen(described, slices.where).columns <= names
    for counter in shown.timeline.counters:
        used = {counter.column, *counter.by, *filter(None, (counter.after,))}
        assert used | Chosen(described, counter.zero_where).columns <= names
    if samples := shown.timeline.samples:
        assert {samples.stack} | Chosen(described, samples.where).columns <= names
    if switches := shown.timeline.switches:
        assert set(vars(switches).values()) <= names
    assert Chosen(described, stream.failed).columns <= names
    columns = {name for part in shown.line if "{" not in part for name in (part,)}
    assert columns | set(stream.labels) <= names


def test_c_and_python_name_the_same_fields() -> None:
    """The error names all fields that are missing in C or in Python, and the side that lacks them."""
    probe = probe_named("process")
    (exec_, *_) = probe.streams
    less = replace(exec_, columns={name: column for name, column in exec_.columns.items() if name != "ppid"})
    with pytest.raises(LayoutMismatch, match="stream 'exec', struct exec_event: Python lacks 'ppid'"):
        probe.layout(less)
    more = replace(exec_, columns={**exec_.columns, "shoe_size": Column("of the user"), "age": Column("likewise")})
    with pytest.raises(LayoutMismatch, match="C lacks 'age', C lacks 'shoe_size'"):
        probe.layout(more)


def test_a_stream_without_a_struct_is_named() -> None:
    """The message names the struct that is missing in C."""
    with pytest.raises(LayoutMismatch, match="no struct nonsense_event; is SCOPE_STREAM declared"):
        probe_named("process").layout(Stream("nonsense", "", columns={}))


def test_an_unknown_probe_is_told_with_those_there_are() -> None:
    """The message lists all probes, by name."""
    known = ", ".join(sorted(probes()))
    with pytest.raises(UnknownProbe, match=f"no probe named 'nonsense'; there are: {known}"):
        probe_named("nonsense")


def test_two_probes_cannot_share_a_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two probes with a stream of the same name are refused; the message names both probes."""
    import scope_bpf.probes

    (tmp_path / "again.py").write_text(
        "from dataclasses import replace\nfrom scope_bpf.probes.sched import PROBE as SCHED\n"
        "PROBE = replace(SCHED, name='again')"
    )
    monkeypatch.setattr(scope_bpf.probes, "__path__", [*scope_bpf.probes.__path__, str(tmp_path)])
    try:
        with pytest.raises(LayoutMismatch, match="probes 'again' and 'sched' both have 'switch'"):
            probes.__wrapped__()
    finally:
        sys.modules.pop("scope_bpf.probes.again", None)


def test_a_fingerprint_tells_schemas_apart() -> None:
    """A fingerprint depends on names, types and order of the columns, not on metadata."""
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    others = [
        pa.schema([("b", pa.string()), ("a", pa.int32())]),
        pa.schema([("a", pa.int64()), ("b", pa.string())]),
        pa.schema([("a", pa.int32()), ("c", pa.string())]),
        pa.schema([("a", pa.int32())]),
    ]
    assert len({fingerprint(each) for each in [schema, *others]}) == 5
    assert fingerprint(schema.with_metadata({"k": "v"})) == fingerprint(schema)
    assert re.fullmatch(r"[0-9a-f]{16}", fingerprint(schema))
