"""Starting and ending a tracer: alternatives, refusals, cleanup."""

import errno
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import Compile, Record

from scope_bpf import host
from scope_bpf.binding.features import Feature, lacking
from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import KernelStatistics
from scope_bpf.capture import uprobe
from scope_bpf.capture.account import Account
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.doctor import examine
from scope_bpf.capture.events import BUFFER_BYTES
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Stream, Summary
from scope_bpf.catalogue.target import Target
from scope_bpf.errors import KernelError, LayoutMismatch, NotSupported, VerifierError
from scope_bpf.probes import probe_named, probes
from scope_catalogue.errors import InvalidOption
from scope_catalogue.options import Option, parse_options, trial
from scope_catalogue.stream import Column

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
def thing(compiled: Compile) -> Callable[..., Probe]:
    """Makes a throw-away probe with two ways to attach."""

    def build(
        section: str = "tp_btf/sched_process_fork", body: str = "", columns: tuple[str, ...] = ("value",)
    ) -> Probe:
        compiled("thing", PROGRAM % (section, body))
        return Probe(
            name="thing",
            meaning="of no use",
            streams=(Stream("thing", "a thing", columns={name: Column("a value") for name in columns}),),
            alternatives=(Alternative("the better way", ("refused",)), Alternative("the other way", ("taken",))),
        )

    return build


def start(probe: Probe) -> Tracer:
    """Starts a probe with its default options, then closes it."""
    with Tracer(probe, parse_options(probe.options, {})) as tracer:
        tracer.start()
    return tracer


def test_the_first_alternative_that_works_is_taken(thing: Callable[..., Probe]) -> None:
    """The tracer skips an alternative that the kernel refuses; the tracer and doctor report the reason."""
    probe = thing(section="tp_btf/no_such_tracepoint")
    tracer = start(probe)
    assert tracer.attach_point == "the other way"
    (reason,) = tracer.refused
    assert reason.startswith("the better way: ")
    assert "no_such_tracepoint" in reason
    finding = examine(probe)
    assert finding.available
    assert (finding.attach_point, "no_such_tracepoint" in finding.reason) == ("the other way", True)


def test_a_kernel_that_attaches_one_by_one_loads_programs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel cannot attach to many functions at once, that is known before programs are loaded for it."""
    loaded: list[BpfObject] = []
    load = BpfObject.load

    def refuse(_: int) -> None:
        raise KernelError("cannot attach to many functions at once", errno.EINVAL)

    def counted(object_: BpfObject) -> None:
        loaded.append(object_)
        load(object_)

    uprobe.require_together.cache_clear()
    monkeypatch.setattr(uprobe, "try_together", refuse)
    monkeypatch.setattr(BpfObject, "load", counted)
    finding = examine(probe_named("span"))
    assert finding.attach_point == "uprobe: the declared functions"
    assert "cannot attach to many functions at once" in finding.reason
    assert len(loaded) == 1


def test_options_that_load_other_programs_are_tried(thing: Callable[..., Probe]) -> None:
    """If it is asked for, each value of an option that loads other programs is tried, and the reason of a failure told;
    one that changes no program is not."""

    def hooks(options: Mapping[str, Any]) -> Hooks:
        return Hooks(programs=("refused",)) if options["way"] == "bad" else Hooks()

    ways = Option("way", "choice", "default", "", choices=("default", "same", "bad"))
    also = Option("also", "boolean", False, "")
    probe = replace(
        thing(section="tp_btf/no_such_tracepoint"),
        alternatives=(Alternative("the other way", ("taken",)),),
        extra_options=(ways, also),
        hooks=hooks,
    )
    assert examine(probe).tried == ()
    finding = examine(probe, options=True)
    assert finding.available
    assert [one.option for one in finding.tried] == ["way=bad"]
    assert "no_such_tracepoint" in finding.tried[0].reason


def test_a_probe_is_tried_on_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on this one, whose large libraries it would read; the process ends with the trial."""
    pids: list[int] = []

    def tried(probe: Probe, options: Mapping[str, Any], target: Target) -> Tracer:
        pids.append(target.pid or 0)
        assert Path("/proc", str(target.pid)).exists()
        return Tracer(probe, options, target)

    monkeypatch.setattr("scope_bpf.capture.doctor.Tracer", tried)
    assert examine(probe_named("sched")).available
    (pid,) = pids
    assert pid not in (0, os.getpid())
    assert not Path("/proc", str(pid)).exists()


def test_the_options_of_a_probe_that_are_tried() -> None:
    """Modes, and what else is attached."""
    finding = examine(probe_named("profile"), options=True)
    assert {one.option: one.reason for one in finding.tried} == {"mode=summary": "", "record=off_cpu": ""}


def test_the_best_alternative_is_taken_where_it_works(thing: Callable[..., Probe]) -> None:
    """If the best alternative works, it is used and none is refused."""
    tracer = start(thing())
    assert (tracer.attach_point, tracer.refused) == ("the better way", [])


def test_no_alternative_left_is_not_supported(thing: Callable[..., Probe]) -> None:
    """If no alternative works, the error gives the reason."""
    probe = thing(section="tp_btf/no_such_tracepoint")
    with pytest.raises(NotSupported, match=r"probe 'thing' cannot run here: the better way: .*no_such_tracepoint"):
        start(replace(probe, alternatives=probe.alternatives[:1]))


def test_what_an_old_kernel_lacks_is_said(thing: Callable[..., Probe], monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the kernel's own words; where it lacks nothing, those are told."""
    assert lacking() == []
    absent = Feature("loops by bpf_loop()", "5.17", lambda: False)
    monkeypatch.setattr("scope_bpf.binding.features.FEATURES", (absent,))
    with pytest.raises(
        NotSupported, match=r"'thing' cannot run on Linux .* BPF lacks loops by bpf_loop\(\) \(Linux 5.17\)"
    ):
        start(thing(section="tp_btf/no_such_tracepoint", body="return *(volatile int *)((long)parent * 2);"))


def test_an_old_kernel_is_no_explanation_of_too_few_descriptors(
    thing: Callable[..., Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without descriptors, trying a feature fails too, on every kernel: the lack of descriptors is told."""

    def refuse(_tracer: Tracer, _alternative: object) -> None:
        raise KernelError("cannot load", errno.EMFILE)

    monkeypatch.setattr(Tracer, "_start", refuse)
    monkeypatch.setattr("scope_bpf.binding.features.FEATURES", (Feature("loops", "5.17", lambda: False),))
    with pytest.raises(NotSupported, match="Too many open files"):
        start(thing())


def test_a_refusal_of_the_verifier_names_program_and_line(thing: Callable[..., Probe]) -> None:
    """The message has the program and the verifier's complaint; the error keeps the log."""
    probe = thing(section="tp_btf/no_such_tracepoint", body="return *(volatile int *)((long)parent * 2);")
    with pytest.raises(VerifierError, match=r"refused the BPF program 'taken'.*R1 ") as caught:
        start(probe)
    assert "BEGIN PROG LOAD LOG" in caught.value.log


@pytest.mark.parametrize(
    ("columns", "said"),
    [((), "Python lacks 'value'"), (("value", "other"), "C lacks 'other'")],
    ids=["field-without-column", "column-without-field"],
)
def test_c_and_python_must_name_the_same_fields(
    thing: Callable[..., Probe], columns: tuple[str, ...], said: str
) -> None:
    """A field missing in C or Python fails at load; the error names the stream, the struct and the field."""
    with pytest.raises(LayoutMismatch, match=f"stream 'thing', struct thing_event: {said}"):
        start(thing(columns=columns))


@pytest.mark.alone  # all probes attach to all that the other tests run and map
def test_nothing_is_left_behind() -> None:
    """After close, no program, map or descriptor of the tracer is left."""
    ours: set[tuple[str, int]] = set()
    for probe in (probe for probe in probes().values() if not probe.sampler):
        with Tracer(probe, parse_options(probe.options, trial(probe.options))) as tracer:
            tracer.start()
            tracer.poll(10)
            held = _held()
            assert {kind for kind, _ in held} == {"prog", "map"}
            ours |= held
            tracer.finish()
    assert not _held()
    patience = time.monotonic() + 10
    while ours & _in_kernel() and time.monotonic() < patience:
        time.sleep(0.1)  # the kernel frees them a moment after their last user is gone
    assert not ours & _in_kernel()


def test_nothing_is_left_behind_when_the_last_counts_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised, and everything is freed nevertheless."""

    def refuse(_: Tracer) -> dict[str, Account]:
        raise KernelError("cannot read the books", errno.EIO)

    tracer = Tracer(probe_named("process"), parse_options(probe_named("process").options, {}))
    tracer.start()
    assert _held()
    with monkeypatch.context() as broken:
        broken.setattr(Tracer, "accounts", refuse)
        with pytest.raises(KernelError, match="cannot read the books"):
            tracer.close()
    assert not _held()
    tracer.close()


def _held() -> set[tuple[str, int]]:
    """The programs and maps that this process has open, by kind and id."""
    texts = []
    for descriptor in Path("/proc/self/fdinfo").iterdir():
        with suppress(OSError):  # the listing's own descriptor is closed
            texts.append(descriptor.read_text(errors="replace"))  # a link's has its file's path, which may be any bytes
    return {(kind, int(id_)) for text in texts for kind, id_ in re.findall(r"(?m)^(prog|map)_id:\s*(\d+)", text)}


def _in_kernel() -> set[tuple[str, int]]:
    """All programs and maps in the kernel, of any process, by kind and id."""
    tools = {kind: ["bpftool", "-j", kind] for kind in ("prog", "map")}
    listed = {kind: subprocess.check_output(one, encoding="utf-8", errors="replace") for kind, one in tools.items()}
    return {(kind, item["id"]) for kind, text in listed.items() for item in json.loads(text)}


def test_a_kernel_without_btf_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file and the kernel's build option."""
    monkeypatch.setattr(host, "KERNEL_BTF", Path("/nonsense/btf"))
    with pytest.raises(NotSupported, match=r"/nonsense/btf cannot be read: .* CONFIG_DEBUG_INFO_BTF"):
        start(probe_named("syscalls"))


def test_an_object_that_was_not_built_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names the file and the make target that builds it."""
    monkeypatch.setattr("scope_bpf.catalogue.probe.OBJECTS", tmp_path)
    with pytest.raises(NotSupported, match=r"syscalls.bpf.o is missing; run `make objects`"):
        start(replace(probe_named("syscalls")))


def test_cost_is_counted_by_the_kernel() -> None:
    """With kernel statistics on, program runs and their time are counted, and stay known after close."""
    probe = probe_named("syscalls")
    with Tracer(probe, parse_options(probe.options, {})) as tracer:
        tracer.start()
        with KernelStatistics():
            subprocess.run(["true"], check=True)
        tracer.finish()
    cost = tracer.cost()
    assert cost.run_count > 50
    assert 10 < cost.run_time_ns / cost.run_count < 1_000_000


def test_a_kernel_that_refuses_fentry_is_passed_over(thing: Callable[..., Probe]) -> None:
    """fentry is used where the kernel allows it; an old kernel, or one in lockdown, gets the next alternative."""
    probe = thing(section="fentry/do_exit")
    tracer = start(probe)
    if tracer.refused:
        assert tracer.attach_point == "the other way"
        assert tracer.refused[0].startswith("the better way: ")
        assert examine(probe).reason == f"better alternatives do not work here: {tracer.refused[0]}"
    else:
        assert tracer.attach_point == "the better way"


WITHOUT = """
import sys
from scope_bpf.probes import probe_named
from scope_bpf.errors import MissingCapability
from scope_catalogue.options import parse_options, trial
from scope_bpf.capture.tracer import Tracer
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")))
for probe in map(probe_named, sys.argv[1:]):
    try:
        with Tracer(probe, parse_options(probe.options, trial(probe.options))) as tracer:
            tracer.start()
            print("started")
    except MissingCapability as error:
        print(error)
"""


PACKETS = "programs for packets take CAP_NET_ADMIN; run as root, or grant it"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--bounding-set", "-sys_admin,-bpf,-perfmon"], "this process lacks CAP_BPF and CAP_PERFMON; run as root"),
        (["--bounding-set", "-sys_admin,-perfmon"], "this process lacks CAP_PERFMON; run as root"),
        (["--bounding-set", "-all,+bpf,+perfmon"], "started"),
    ],
    ids=["none", "bpf-alone", "both"],
)
def test_what_privileges_it_takes(runnable: dict[str, str], change: list[str], said: str) -> None:
    """The error names the missing capabilities; CAP_BPF and CAP_PERFMON are enough for every probe with programs, but
    for those that read packets."""
    admin, perfmon, bpf = (1 << number for number in (21, 38, 39))  # include/uapi/linux/capability.h
    names = [name for name, probe in probes().items() if not probe.sampler]
    if lacking := next(filter(None, map(runnable.__getitem__, names)), ""):
        pytest.skip(lacking)
    command = ["setpriv", *change, sys.executable, "-c", WITHOUT, *names]
    mask, *answers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for name, answer in zip(names, answers, strict=True):
        assert answer.startswith(PACKETS if name in ("dns", "udp") and said == "started" else said), name
    if said == "started":
        assert int(mask, 16) == bpf | perfmon, "it had these two and no others"
    else:
        assert int(mask, 16) & (admin | perfmon) == 0, "they were really taken"


NESTS = """
#include "scope.bpf.h"
struct fault_event { struct scope_header header; };
SCOPE_STREAM(fault);
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_done)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fault_event *event;
	char byte;

	if (!scope_passes(task))
		return 0;
	event = scope_reserve(task, stream_fault, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (event)
		scope_submit(event, stream_fault, sizeof(*event));
	bpf_probe_read_user(&byte, 1, (void *)8); /* faults, within the program that faults run */
	return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the tracepoint of page faults is x86's")
def test_runs_that_the_kernel_left_out_are_lost_by_number(compiled: Compile, record: Record) -> None:
    """When the kernel skips a run of a program because it already runs, the account counts a loss."""
    compiled("nests", NESTS)
    probe = Probe(
        name="nests",
        meaning="page faults of the kernel's",
        streams=(Stream("fault", "a fault", columns={}),),
        alternatives=(Alternative("tp_btf: page_fault_kernel", ("fault_done",)),),
    )
    script = "import mmap\nwith open('/dev/zero', 'rb', 0) as f: f.readinto(mmap.mmap(-1, 101 * 4096))"
    recording = record(probe, [sys.executable, "-S", "-E", "-c", script])
    account, count = recording.accounts["fault"], recording.count("fault")
    assert count >= 101
    assert account.lost["missed_run"] in (count, 2 * count)  # some kernels try the read twice
    assert account.emitted == count + account.lost["missed_run"]


CUT = """
#include "scope.bpf.h"
struct half_event { struct scope_header header; __u64 never_written; };
SCOPE_STREAM(half);
SEC("tp_btf/sched_process_fork")
int BPF_PROG(cut, struct task_struct *parent)
{
	void *event;

	if (!scope_passes(parent))
		return 0;
	event = scope_reserve(parent, stream_half, bpf_ktime_get_boot_ns(), sizeof(struct scope_header));
	if (event)
		scope_submit(event, stream_half, sizeof(struct scope_header));
	return 0;
}
"""


def test_records_that_cannot_be_kept_are_lost_by_number(compiled: Compile, record: Record) -> None:
    """A record shorter than its stream's struct is not read, but counted as lost (`unkept`)."""
    compiled("halves", CUT)
    probe = Probe(
        name="halves",
        meaning="of no use",
        streams=(Stream("half", "half an event", columns={"never_written": Column("nothing")}),),
        alternatives=(Alternative("tp_btf: sched_process_fork", ("cut",)),),
    )
    recording = record(probe, ["sh", "-c", "true & true & true & wait"])
    account = recording.accounts["half"]
    assert (account.emitted, dict(account.lost), recording.count("half")) == (3, {"unkept": 3}, 0)


MIXED = """
#include "scope.bpf.h"
struct born_key { struct scope_process process; };
struct born_value { __u64 count; };
SCOPE_SUMMARY(born)
struct birth_event { struct scope_header header; };
SCOPE_STREAM(birth);
SEC("tp_btf/sched_process_fork")
int BPF_PROG(both, struct task_struct *parent)
{
	struct born_key key = {};
	struct born_value *value;
	struct birth_event *event;

	if (!scope_passes(parent))
		return 0;
	fill_process(&key.process, parent);
	value = born_slot(&key);
	if (value)
		__sync_fetch_and_add(&value->count, 1);
	event = scope_reserve(parent, stream_birth, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (event)
		scope_submit(event, stream_birth, sizeof(*event));
	return 0;
}
"""


def test_streams_come_in_any_order(compiled: Compile, record: Record) -> None:
    """A probe may name its summary before its events; each has its own rows and its own account."""
    compiled("mixed", MIXED)
    probe = Probe(
        name="mixed",
        meaning="forks, twice",
        streams=(
            Stream("born", "forks by process", columns={"count": Column("forks")}, summary=Summary()),
            Stream("birth", "a fork", columns={}),
        ),
        alternatives=(Alternative("tp_btf: sched_process_fork", ("both",)),),
    )
    recording = record(probe, ["sh", "-c", "true & true & true & wait"], mode="summary")
    assert recording.count("birth") == 3
    assert sum(row["count"] for row in recording.rows("born")) == 3
    for stream, account in recording.accounts.items():
        assert (account.emitted, dict(account.lost)) == (recording.count(stream), {})


def test_a_reader_is_woken_before_the_ring_is_full() -> None:
    """Bursts of several rings' size in total lose nothing in one long poll: events with tails wake the reader too."""
    script = (
        "import os, time\nfor n in range(20):\n    for m in range(400): os.close(os.open('/', 0))\n    time.sleep(0.05)"
    )
    probe = probe_named("files")
    command = HeldCommand([sys.executable, "-S", "-E", "-c", script])
    with Tracer(probe, parse_options(probe.options, {"ring_bytes": 1 << 18}), Target(pid=command.pid)) as tracer:
        tracer.start()
        command.release()
        count = sum(batch.count for batch in tracer.poll(4000))
        while command.poll() is None:
            count += sum(batch.count for batch in tracer.poll(100))
        count += sum(batch.count for batch in tracer.finish())
        accounts = tracer.accounts().values()
    assert [account.lost for account in accounts if account.lost] == []
    assert sum(account.emitted for account in accounts) == count > 8000


@pytest.mark.parametrize("bound", [4 << 20, 24 << 20])
def test_what_nobody_polls_waits_in_memory(bound: int) -> None:
    """While nobody polls, events wait in memory up to the bound that was chosen, and then are lost and counted."""
    probe, ring = probe_named("syscalls"), 1 << 18
    options = parse_options(probe.options, {"names": "getppid", "ring_bytes": ring})
    size = probe.layout(probe.public_streams[0]).size
    command = HeldCommand([sys.executable, "-S", "-E", "-c", "import os\nwhile True: os.getppid()"])
    with Tracer(probe, options, Target(pid=command.pid), waiting_bytes=bound) as tracer:
        tracer.start()
        command.release()
        end, kept, account = time.monotonic() + 60, 0, Account()
        try:
            while kept * size < bound or not account.lost:
                assert time.monotonic() < end, f"{kept} rows of {size} bytes wait"
                time.sleep(0.01)
                account = tracer.accounts()["syscall"]
                kept = account.emitted - sum(account.lost.values())
        finally:
            os.kill(command.pid, signal.SIGKILL)
            command.close()
        rows = sum(batch.count for batch in tracer.finish())
    account = tracer.accounts()["syscall"]
    assert account.emitted == rows + account.lost["ring_full"]
    rings = 2 * ring * (os.cpu_count() or 1)  # records have headers there
    assert bound <= rows * size < bound + rings + 2 * BUFFER_BYTES


@pytest.mark.parametrize("ring_bytes", [(1 << 30) + 1, -1, "much"])
def test_a_ring_of_no_size_is_refused(ring_bytes: Any) -> None:
    """An impossible ring size is refused when options are parsed; the error says what is allowed."""
    with pytest.raises(InvalidOption, match=r"option 'ring_bytes': .* is not (from 0 to 1073741824|a whole number)"):
        parse_options(probe_named("syscalls").options, {"ring_bytes": ring_bytes})
