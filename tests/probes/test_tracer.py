"""Starting and ending a tracer: alternatives, refusals, cleanliness."""

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scope_bpf import host
from scope_bpf.catalogue import Alternative, Column, Probe, Stream, probe_named, probes
from scope_bpf.doctor import examine
from scope_bpf.errors import LayoutMismatch, NotSupported, VerifierError
from scope_bpf.options import parse_options
from scope_bpf.statistics import KernelStatistics
from scope_bpf.tracer import Tracer

ROOT = Path(__file__).parents[2]
PROGRAM = """
#include "scope.bpf.h"
struct thing_event { struct scope_header header; __s32 value; __u8 pad[4]; };
SCOPE_STREAM(thing);
SEC("%s")
int BPF_PROG(refused) { return 0; }
SEC("tp_btf/sched_process_fork")
int BPF_PROG(taken, struct task_struct *parent) { %s return 0; }
"""


@pytest.fixture
def thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "type[Probe]":
    """Compiles a throw-away probe with two ways to attach."""

    def build(
        section: str = "tp_btf/sched_process_fork", body: str = "", columns: tuple[str, ...] = ("value",)
    ) -> Probe:
        source = tmp_path / "thing.bpf.c"
        source.write_text(PROGRAM % (section, body))
        flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86"]
        includes = [f"-I{ROOT}/bpf/include", f"-I{ROOT}/bpf/vmlinux/x86"]
        subprocess.run(["clang", *flags, *includes, "-c", source, "-o", tmp_path / "thing.bpf.o"], check=True)
        monkeypatch.setattr("scope_bpf.catalogue.OBJECTS", tmp_path)
        return Probe(
            name="thing",
            meaning="of no use",
            streams=(Stream("thing", "a thing", columns={name: Column("a value") for name in columns}),),
            alternatives=(Alternative("the better way", ("refused",)), Alternative("the other way", ("taken",))),
        )

    return build  # type: ignore[return-value]


def start(probe: Probe) -> Tracer:
    """Starts the probe with its defaults and ends it."""
    with Tracer(probe, parse_options(probe.options, {})) as tracer:
        tracer.start()
    return tracer


def test_the_first_alternative_that_works_is_taken(thing: "type[Probe]") -> None:
    """What the kernel refuses is passed over, its reason is kept, and doctor tells both."""
    probe = thing(section="tp_btf/no_such_tracepoint")
    tracer = start(probe)
    assert tracer.attach_point == "the other way"
    (reason,) = tracer.refused
    assert reason.startswith("the better way: ")
    assert "no_such_tracepoint" in reason
    finding = examine(probe)
    assert finding.available
    assert (finding.attach_point, "no_such_tracepoint" in finding.reason) == ("the other way", True)


def test_the_best_alternative_is_taken_where_it_works(thing: "type[Probe]") -> None:
    """Nothing is passed over without need."""
    tracer = start(thing())
    assert (tracer.attach_point, tracer.refused) == ("the better way", [])


def test_no_alternative_left_is_not_supported(thing: "type[Probe]") -> None:
    """If none works, the error has the reason of each."""
    probe = thing(section="tp_btf/no_such_tracepoint")
    with pytest.raises(NotSupported, match=r"probe 'thing' cannot run here: the better way: .*no_such_tracepoint"):
        start(replace(probe, alternatives=probe.alternatives[:1]))


def test_a_refusal_of_the_verifier_names_program_and_line(thing: "type[Probe]") -> None:
    """The message has the verifier's complaint; the log is kept whole."""
    probe = thing(section="tp_btf/no_such_tracepoint", body="return *(volatile int *)((long)parent * 2);")
    with pytest.raises(VerifierError, match=r"refused the BPF program 'taken'.*R1 ") as caught:
        start(probe)
    assert "BEGIN PROG LOAD LOG" in caught.value.log


@pytest.mark.parametrize(
    ("columns", "said"),
    [((), "Python lacks 'value'"), (("value", "other"), "C lacks 'other'")],
    ids=["field-without-column", "column-without-field"],
)
def test_c_and_python_must_name_the_same_fields(thing: "type[Probe]", columns: tuple[str, ...], said: str) -> None:
    """A field that one side lacks fails at load, with the stream, the struct and the field named."""
    with pytest.raises(LayoutMismatch, match=f"stream 'thing', struct thing_event: {said}"):
        start(thing(columns=columns))


def test_nothing_is_left_behind() -> None:
    """After close the kernel has no program and no map of the tracer's any more."""
    before = _programs_and_maps()
    for probe in probes().values():
        with Tracer(probe, parse_options(probe.options, {})) as tracer:
            tracer.start()
            tracer.poll(10)
            assert _programs_and_maps() - before
            tracer.finish()
    patience = time.monotonic() + 10
    while _programs_and_maps() - before and time.monotonic() < patience:
        time.sleep(0.1)  # the kernel frees them a moment after their last user is gone
    assert not _programs_and_maps() - before


def _programs_and_maps() -> set[tuple[str, int]]:
    listed = {kind: subprocess.check_output(["bpftool", "-j", kind], text=True) for kind in ("prog", "map")}
    return {(kind, item["id"]) for kind, text in listed.items() for item in json.loads(text)}


def test_a_kernel_without_btf_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file and the kernel's build option."""
    monkeypatch.setattr(host, "KERNEL_BTF", Path("/nonsense/btf"))
    with pytest.raises(NotSupported, match=r"/nonsense/btf cannot be read: .* CONFIG_DEBUG_INFO_BTF"):
        start(probe_named("syscalls"))


def test_an_object_that_was_not_built_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names the file and the target that makes it."""
    monkeypatch.setattr("scope_bpf.catalogue.OBJECTS", tmp_path)
    with pytest.raises(NotSupported, match=r"syscalls.bpf.o is missing; run `make objects`"):
        start(replace(probe_named("syscalls")))


def test_cost_is_counted_by_the_kernel() -> None:
    """While statistics are on, runs and their time are counted; otherwise not."""
    probe = probe_named("syscalls")
    with Tracer(probe, parse_options(probe.options, {})) as tracer:
        tracer.start()
        before = tracer.cost().run_count
        subprocess.run(["true"], check=True)
        assert tracer.cost().run_count == before
        with KernelStatistics():
            subprocess.run(["true"], check=True)
        cost = tracer.cost()
    assert cost.run_count > 50
    assert 10 < cost.run_time_ns / cost.run_count < 1_000_000
