"""catalogue.json says of the probes what scope_bpf says."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from scope_bpf.catalogue.described import described
from scope_bpf.probes import probes as live
from scope_catalogue.catalogue import probe_named, probes, streams
from scope_catalogue.encoding import from_json, to_json
from scope_catalogue.errors import InvalidDescription, UnknownProbe
from scope_catalogue.shown import Rollup, Shown
from scope_catalogue.stream import DescribedStream, fingerprint


@pytest.mark.parametrize("name", live())
def test_what_only_tells_things_apart_is_no_cause(name: str) -> None:
    """A column with an id, an address or a time since boot is marked, so that no comparison takes it for a cause."""
    ids = re.compile(r"(.*_)?(pid|tid|ppid|start_ns|ktime_ns|cgroup_id|inode|netns|sector|connection|stack_id)")
    found = {
        (stream.name, one.name): one.identity for stream in described(live()[name]).streams for one in stream.columns
    }
    assert {names for names, identity in found.items() if ids.fullmatch(names[1]) and not identity} == set()
    assert ("block", "device") not in found or found["block", "device"]


@pytest.mark.parametrize("name", live())
def test_the_built_catalogue_is_that_of_the_probes(name: str) -> None:
    """Each probe is in catalogue.json, with its options, guide, streams and their fingerprints."""
    probe, found = live()[name], probe_named(name)
    expected = described(probe)
    assert found == replace(expected, options=tuple(replace(option, check=None) for option in expected.options))
    schemas = {stream.name: probe.schema(stream) for stream in probe.public_streams}
    assert {stream.name: stream.fingerprint for stream in found.streams} == {
        stream: fingerprint(schema) for stream, schema in schemas.items()
    }


def test_the_catalogue_has_no_other_probe() -> None:
    """What is gone from scope_bpf is gone from the catalogue; an unknown name is answered with the known ones."""
    assert list(probes()) == list(live())
    with pytest.raises(UnknownProbe, match="no probe named 'syscals' \\(did you mean 'syscalls'"):
        probe_named("syscals")


def test_reading_the_catalogue_loads_no_probe() -> None:
    """A command that asks a server starts fast: it loads neither scope_bpf nor Arrow to know the streams."""
    asked = "import sys; from scope_catalogue.catalogue import streams; streams(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    assert "scope_catalogue.stream" in loaded
    assert not {"scope_bpf", "pyarrow", "numpy"} & set(loaded)


@pytest.mark.parametrize("name", ["syscall", "gpu", "cuda_live"])
def test_a_definition_survives_json(name: str) -> None:
    """A definition is the same after it was written as JSON and read; keys of a newer version are left out."""
    text = json.dumps(to_json(streams()[name]) | {"invented": {"by": "a newer version"}})
    assert from_json(DescribedStream, json.loads(text)) == streams()[name]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": 7}, "name is not a text: 7"),
        ({"mode": "odd"}, "mode is not one of events, summary, samples: 'odd'"),
        ({"columns": {}}, r"columns is not a list: \{\}"),
        ({"columns": [[]]}, r"columns\[0\] is not an object: \[\]"),
        ({"columns": [{"meaning": "", "name": "a"}]}, r"columns\[0\].type is missing"),
        ({"columns": [{"meaning": "", "name": "a", "type": "bool", "hex": 1}]}, "hex is not true or false: 1"),
        (
            {"columns": [{"meaning": "", "name": "a", "type": "bool", "codes": "x"}]},
            "codes is not one of ERROR, SIGNAL",
        ),
        ({"rollup": {"by": "comm"}}, "rollup.by is not a list: 'comm'"),
        ({"latest": {"by": [], "totals": []}}, "latest.key is missing"),
        ({"latest": {"key": [], "by": [], "totals": [], "means": []}}, r"latest.means is not an object: \[\]"),
    ],
)
def test_json_of_another_form_is_refused(changed: dict[str, object], said: str) -> None:
    """A value of another type than its field is refused; the message says where it is."""
    with pytest.raises(InvalidDescription, match=said):
        from_json(DescribedStream, to_json(streams()["syscall"]) | changed)
    with pytest.raises(InvalidDescription, match="the description is not an object"):
        from_json(DescribedStream, [])


@pytest.mark.parametrize(
    "shown",
    [
        {"tables": [{"by": ["comm"]}]},
        {"tables": [{"Pie": {"by": ["comm"]}}]},
        {"tables": [{"Table": {"by": ["comm"], "cells": [{"Median": {"column": "ret"}}]}}]},
        {"tables": [{"Table": {}}]},
        ["nothing"],
        7,
    ],
)
def test_what_cannot_be_shown_is_stored(shown: object) -> None:
    """A description of another version may show rows in ways that this one does not know: it shows none."""
    told = to_json(streams()["syscall"])
    read = from_json(DescribedStream, told | {"shown": shown})
    assert read == replace(streams()["syscall"], shown=Shown())


def test_rows_of_several_events_say_how_many_failed() -> None:
    """Of every stream whose rows stand for several events, `failed` compares the column with their number."""
    summed = [one for one in streams().values() if one.failed and one.rollup and one.rollup.count]
    assert len(summed) > 5
    for one in streams().values():
        assert bool(one.failures) == (one in summed), one.name
        assert not one.failures or one.failures in one.by_name


def test_older_ways_to_show_rows_are_left_out() -> None:
    """Before, failures and filters of totals were told in other words; the rest of such a description counts."""
    told = to_json(streams()["cuda_call"])
    told["rollup"] = {"by": ["comm"], "measured": "duration_ns", "failed": "result", "failed_if": "not_zero"}
    told["rollup"]["unless"] = "nested"
    assert from_json(DescribedStream, told).rollup == Rollup(by=("comm",), measured="duration_ns")
