"""What a probe cannot record is counted, and told: io_uring and Linux AIO."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.probes.recording import Record

from scope_bpf.capture.doctor import examine
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.probe import Probe
from scope_bpf.probes import probe_named, probes
from scope_catalogue.options import parse_options

SUBMITTED = {"uring": "8 io_uring submissions", "aio": "5 operations of Linux AIO"}
UNSEEN = [
    name for name, probe in probes().items() if any("uring" in alternative.unseen for alternative in probe.alternatives)
]


@pytest.fixture
def unseen(workload: Callable[[str], str], tmp_path: Path) -> list[str]:
    """The command that makes such calls."""
    return [workload("unseen"), str(tmp_path / "written")]


def without_operations(name: str) -> Probe:
    """The probe as on a kernel on which it cannot record what io_uring does."""
    probe = probe_named(name)
    ways = tuple(alternative for alternative in probe.alternatives if "uring" in alternative.unseen)
    return replace(probe, alternatives=ways)


@pytest.mark.parametrize("probe", UNSEEN)
@pytest.mark.parametrize("mode", ["events", "summary"])
def test_what_is_not_recorded_is_counted(record: Record, unseen: list[str], probe: str, mode: str) -> None:
    """Notes tell exactly what a watched process submitted to io_uring and to AIO, in both modes."""
    older = without_operations(probe)
    recording = record(older, unseen, mode=mode)
    if recording.status == 2:
        pytest.skip("this kernel has no io_uring for this user")
    assert recording.status == 0
    told = " and ".join(SUBMITTED[kind] for kind in older.alternatives[0].unseen)
    assert recording.notes == [f"not recorded by {probe}: {told}"]


def test_what_others_do_is_not_told(record: Record, unseen: list[str]) -> None:
    """Only watched processes count; without any such call there is no note."""
    with subprocess.Popen(unseen):
        assert record(without_operations("files"), ["true"]).notes == []


@pytest.mark.parametrize("probe", UNSEEN)
def test_it_is_said_beforehand(probe: str) -> None:
    """`scope trace` says at its start what is not recorded, `scope doctor` for each probe that can run."""
    found = examine(probe_named(probe))
    (unseen,) = [way.unseen for way in probe_named(probe).alternatives if way.name == found.attach_point]
    assert found.unseen == tuple(unseen.values()) != ()
    words = [sys.executable, "-m", "scope_cli.main", "trace", probe, "--", "true"]
    traced = subprocess.run(words, capture_output=True, text=True, check=True)
    (first, *_) = traced.stderr.splitlines()
    assert first == f"{probe} does not record {' and '.join(unseen.values())}; the end tells if there were any"


def test_counts_stay_after_the_end() -> None:
    """The notes can be asked for before the start and after the end."""
    probe = probe_named("files")
    tracer = Tracer(probe, parse_options(probe.options, {}))
    assert tracer.notes() == []
    with tracer:
        tracer.start()
    assert isinstance(tracer.notes(), list)
