"""Files of `scope trace --perfetto`, read by the rules of Perfetto's importer."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from tests.e2e.conftest import SCOPE
from tests.probes.disks import loop_disk
from tests.probes.test_dns import resolving
from tests.scheduling import Scheduling, scheduling
from tests.trace_processor import sql

WORDS = ["copies", "contexts", "device", "allocate", "end"]
SOURCE = Path(__file__).parents[1] / "probes/workloads/cuda_contexts.c"


@dataclass
class Timeline:
    """A trace as an importer sees it; reading it fails where an importer would complain.

    Attributes:
        tracks: the last descriptor of each uuid.
        slices: (track, name, begin, duration, arguments).
        counters: (track, time, value).
        scheduling: times on CPUs, and wakeups.
    """

    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[tuple[int, str, int, int, dict[str, Any]]] = field(default_factory=list)
    counters: list[tuple[int, int, float]] = field(default_factory=list)
    scheduling: Scheduling = field(default_factory=Scheduling)

    def path(self, track: int) -> tuple[str, ...]:
        """Names from the outermost track to this one."""
        described = self.tracks[track]
        name = described.name or described.thread.thread_name or described.process.process_name
        return (*(self.path(described.parent_uuid) if described.parent_uuid else ()), name)

    def place(self, track: int) -> str:
        """Pid, tid if there is one, and names of what is below, from the outermost track to this one."""
        described = self.tracks[track]
        number = described.process.pid or described.thread.tid
        outer = f"{self.place(described.parent_uuid)}/" if described.parent_uuid else ""
        return f"{outer}{number or described.name}"

    def placed(self) -> Counter[tuple[str, str, int, int]]:
        """(place, name, begin, duration) of all slices."""
        return Counter((self.place(track), name, begin, lasts) for track, name, begin, lasts, _ in self.slices)


def _read(path: Path) -> Timeline:
    timeline, texts, events = Timeline(), {}, []
    packets = proto.Trace.FromString(path.read_bytes()).packet
    assert packets[0].clock_snapshot.primary_trace_clock == 6, "times are of CLOCK_BOOTTIME"
    assert packets[0].sequence_flags == proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    for packet in packets:
        assert packet.trusted_packet_sequence_id == 1
        for kind, entries in packet.interned_data.ListFields():
            for entry in entries:
                assert (kind.name, entry.iid) not in texts, "a number stands for one text"
                texts[kind.name, entry.iid] = entry.str.decode() if hasattr(entry, "str") else entry.name
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert not descriptor.parent_uuid or descriptor.parent_uuid in timeline.tracks
            timeline.tracks[descriptor.uuid] = descriptor
        if packet.HasField("track_event"):
            assert packet.track_event.track_uuid in timeline.tracks, "a track is described before it is used"
            events.append((packet.timestamp, packet.track_event))
    timeline.scheduling = scheduling(packets)
    open_slices: dict[int, list[tuple[str, int, dict[str, Any]]]] = {}
    for time, event in sorted(events, key=lambda one: one[0]):  # as the importer does: equal times keep their order
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == proto.TrackEvent.TYPE_SLICE_BEGIN:
            name = event.name or texts["event_names", event.name_iid]
            stack.append((name, time, dict(_arguments(event, texts))))
        elif event.type == proto.TrackEvent.TYPE_INSTANT:
            timeline.slices.append((event.track_uuid, texts["event_names", event.name_iid], time, 0, {}))
        elif event.type == proto.TrackEvent.TYPE_SLICE_END:
            name, begin, arguments = stack.pop()
            timeline.slices.append((event.track_uuid, name, begin, time - begin, arguments))
        else:
            timeline.counters.append((event.track_uuid, time, getattr(event, event.WhichOneof("counter_value_field"))))
    assert not any(open_slices.values()), "every slice ends"
    return timeline


def _arguments(event: Any, texts: dict[tuple[str, int], str]) -> Iterator[tuple[str, Any]]:
    for one in event.debug_annotations:
        kind = one.WhichOneof("value")
        value = getattr(one, kind)
        if kind == "string_value_iid":
            value = texts["debug_annotation_string_values", value]
        yield texts["debug_annotation_names", one.name_iid], value


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("contexts") / "contexts"
    subprocess.run(["gcc", "-O1", "-pthread", "-o", made, SOURCE], check=True)
    return made


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory, program: Path) -> Timeline:
    path = tmp_path_factory.mktemp("traces") / "a.pftrace"
    command = [*SCOPE, "trace", "cuda", "--perfetto", str(path), "--", str(program), *WORDS]
    traced = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(rf"{path}: \d+ rows on the timeline; open it at https://ui.perfetto.dev\n", traced.stderr)
    return _read(path)


def test_calls_are_slices_of_their_threads(timeline: Timeline) -> None:
    """Each call is a slice on the track of its thread. Its known columns are arguments; absent ones are left out."""
    of_threads = [one for one in timeline.slices if timeline.tracks[one[0]].HasField("thread")]
    assert Counter(name for _, name, *_ in of_threads) == {
        "cudaMalloc": 2 + 5,
        "cudaMallocManaged": 1,
        "cudaMallocHost": 1,
        "cudaFree": 1,
        "cudaMemcpy": 7,
        "cuMemcpy2D_v2": 3,
        "cuMemcpyHtoA_v2": 1,
        "cuMemcpy3DAsync_v2": 1,
        "cudaSetDevice": 1,
        "cuMemAlloc_v2": 4,
        "cuMemAllocAsync": 1,
        "cuCtxDestroy_v2": 1,
        "cudaDeviceSynchronize": 1,
        "cudaStreamSynchronize": 1,
    }
    assert len({track for track, *_ in of_threads}) == 2
    assert {timeline.path(track) for track, *_ in of_threads} == {("contexts", "contexts")}
    (copy,) = [arguments for *_, arguments in of_threads if arguments.get("bytes") == 3]
    assert copy.items() >= {"api": "runtime", "kind": "D2H", "result_name": "cudaSuccess", "result": 0}.items()
    assert copy["src"] and copy["bandwidth"] > 0
    assert copy["is_async"] is False
    (ended,) = [arguments for _, name, *_, arguments in of_threads if name == "cudaDeviceSynchronize"]
    assert "result" not in ended, "what is absent is no argument"


def test_streams_and_devices_have_tracks(timeline: Timeline) -> None:
    """A call with a stream is also a slice on the stream's track, below its device. A copy is named by direction."""
    of_streams = [one for one in timeline.slices if not timeline.tracks[one[0]].HasField("thread")]
    assert Counter((timeline.path(track), name) for track, name, *_ in of_streams) == {
        (("contexts", "device unknown", "stream 0x0"), "cudaMemcpy H2D"): 1,
        (("contexts", "device unknown", "stream 0x0"), "cudaMemcpy D2H"): 2,
        (("contexts", "device unknown", "stream 0x0"), "cudaMemcpy D2D"): 1,
        (("contexts", "device unknown", "stream 0x0"), "cudaMemcpy H2H"): 1,
        (("contexts", "device unknown", "stream 0x0"), "cudaMemcpy default"): 2,
        (("contexts", "device unknown", "stream 0x0"), "cuMemcpy2D_v2 H2D"): 1,
        (("contexts", "device unknown", "stream 0x0"), "cuMemcpy2D_v2 D2D"): 1,
        (("contexts", "device unknown", "stream 0x0"), "cuMemcpy2D_v2 D2H"): 1,
        (("contexts", "device unknown", "stream 0x0"), "cuMemcpyHtoA_v2 H2D"): 1,
        (("contexts", "device unknown", "stream 0x0"), "cuMemAllocAsync"): 1,
        (("contexts", "device unknown", "stream 0x77"), "cuMemcpy3DAsync_v2 D2H"): 1,
        (("contexts", "device 3", "stream 0x55"), "cudaStreamSynchronize"): 1,
    }


def test_memory_is_a_counter(timeline: Timeline) -> None:
    """A counter per kind and device changes at each allocation and free. It falls to 0 when the process ends."""
    counters: dict[str, list[float]] = {}
    for track, _, value in timeline.counters:
        assert timeline.tracks[track].counter.unit == proto.CounterDescriptor.UNIT_SIZE_BYTES
        values = counters.setdefault(timeline.path(track)[-1], [])
        if values[-1:] != [value]:  # the allocated memory is also read once a second
            values.append(value)
    mib = 1 << 20
    for device, grown in ((3, [307, 614, 921, 1228, 1535]), (0, [101, 204, 1213])):
        values = counters[f"live_bytes: memory device, device {device}"]
        assert values[: len(grown)] == grown
        # Memory may be read while a context's end frees it: what is left then are some of the allocations.
        each = [after - before for before, after in pairwise([0, *grown])]
        left = {sum(some) for count in range(len(each)) for some in combinations(each, count)}
        fallen = values[len(grown) :]
        assert fallen == sorted(fallen, reverse=True) and {*fallen} <= left
    assert counters["live_bytes: memory device"][:3] == [5 * mib, 10 * mib, 5 * mib]
    assert {name: values[-1] for name, values in counters.items()} == dict.fromkeys(counters, 0)


def test_launches_by_kernel(tmp_path: Path, run_stand_in: Callable[..., Timeline]) -> None:
    """A launch is named by function on its thread, by kernel on its stream. Nested calls are on the thread only."""
    timeline = run_stand_in(tmp_path / "a.pftrace")
    kernels = Counter(name for track, name, *_ in timeline.slices if timeline.path(track)[-1].startswith("stream"))
    assert (kernels["touch(int*)"], kernels["triton_softmax_0d1d"]) == (2, 13)
    functions = Counter(
        (name, arguments["nested"])
        for track, name, _, _, arguments in timeline.slices
        if timeline.tracks[track].HasField("thread")
    )
    assert functions["cudaLaunchKernel", 0] == functions["cuLaunchKernel", 1] == 2
    assert functions["cuLaunchKernel", 0] == 13


@pytest.fixture
def run_stand_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Timeline]:
    from tests.probes.cuda_programs import Nvcc, StandIn

    stand_in = StandIn(tmp_path_factory.mktemp("stand_in"))
    program = stand_in.build(Nvcc(tmp_path_factory.mktemp("cuda")), "memory", "cuda_memory.cu")

    def run(path: Path) -> Timeline:
        subprocess.run([*SCOPE, "trace", "cuda", "--perfetto", str(path), "--", str(program)], check=True)
        return _read(path)

    return run


def test_losses_are_slices_of_a_track(tmp_path: Path, program: Path) -> None:
    """Slices on a track of their own say how many events a full ring lost. Recorded and lost calls add up."""
    path, words = tmp_path / "a.pftrace", ["allocate"] * 4001
    command = [*SCOPE, "trace", "cuda", "-o", "ring_bytes=4096", "--perfetto", str(path), "--", str(program), *words]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    timeline = _read(path)
    gaps = [name for track, name, *_ in timeline.slices if timeline.path(track) == ("lost: cuda_call",)]
    assert gaps
    lost = sum(int(name.partition(" ")[0].replace(",", "")) for name in gaps)
    assert f"{lost:,} lost (ring_full)" in said
    assert sum(name == "cudaMalloc" for _, name, *_ in timeline.slices) + lost == 5 * 4001


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["sched", "--mode", "summary", "--perfetto", "x"], 2, "made of events, and summaries (sched_summary, "),
        (["cuda", "--perfetto", "/nonexistent/x"], 1, "cannot write /nonexistent/x: No such file or directory"),
    ],
)
def test_bad_input_is_told(arguments: list[str], status: int, said: str, tmp_path: Path) -> None:
    command = [*SCOPE, "trace", *arguments, "--duration", "0.1"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == status
    assert said in ran.stderr
    assert not list(tmp_path.iterdir())


def test_every_probe_has_a_timeline(tmp_path: Path) -> None:
    """Probes traced together share one timeline: it shows their calls, opens, forks, execs, exits and switches."""
    path, file = tmp_path / "a.pftrace", tmp_path / "a.json"
    script = ["sh", "-c", "cat /etc/passwd > /dev/null; sleep 0.01"]
    command = [*SCOPE, "trace", "syscalls,sched,files,process", "--perfetto", str(path), "--json", str(file), "--"]
    subprocess.run([*command, *script], capture_output=True, check=True)
    timeline, rows = _read(path), [json.loads(line) for line in file.read_text().splitlines()]
    found: dict[str, Counter[str]] = {}
    for track, name, *_ in timeline.slices:
        found.setdefault(timeline.path(track)[-1], Counter())[name] += 1

    def expected(kind: str, column: str) -> Counter[str]:
        return Counter(row[column] for row in rows if row["type"] == kind)

    calls = sum((found[comm] for comm in ("sh", "cat", "sleep")), Counter[str]())
    assert calls == expected("syscall", "name")
    assert found["open"] == expected("open", "path")
    assert found["process"] == expected("exec", "filename") + Counter({"fork": 2})
    assert found["lifetime"] == expected("exit", "comm")
    switches = [row for row in rows if row["type"] == "switch" and row["on_cpu_ns"] is not None]
    assert Counter(tid for _, tid, *_ in timeline.scheduling.slices) == Counter(row["tid"] for row in switches)


def _drawn(folder: Path, probes: str, *words: str) -> tuple[Timeline, dict[str, list[dict[str, Any]]]]:
    """The timeline of a trace, and its rows by stream."""
    path, file = folder / "a.pftrace", folder / "a.json"
    command = [*SCOPE, "trace", probes, "--perfetto", str(path), "--json", str(file), *words]
    subprocess.run(command, capture_output=True, check=True)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in map(json.loads, file.read_text().splitlines()):
        rows.setdefault(row["type"], []).append(row)
    return _read(path), rows


def _slices(
    rows: list[dict[str, Any]], place: str, name: str, lasting: str = "duration_ns", *, ending: bool = False
) -> Counter[tuple[str, str, int, int]]:
    """The slices of rows, as `Timeline.placed` has them."""
    return Counter(
        (place.format(**row), name.format(**row), row["ktime_ns"] - ending * row[lasting], row[lasting]) for row in rows
    )


def test_connections_lookups_and_datagrams(tmp_path: Path) -> None:
    """Each lookup and query is a slice below its thread; each connection and flow one below its process, when it has
    ended. Queries for both kinds of addresses are under way at once."""
    timeline, rows = _drawn(tmp_path, "net,dns,udp", "--", *resolving(tmp_path, "fetch", 7))
    ended, flows = ([row for row in rows[stream] if row["is_last"]] for stream in ("connection", "udp_flow"))
    of_flow, peer = "{pid}/socket {socket}/remote {remote}/remote_port {remote_port}/udp", "{remote} {remote_port}"
    assert timeline.placed() == (
        _slices(rows["dns"], "{pid}/{tid}/dns", "{name} {qtype}")
        + _slices(rows["dns_lookup"], "{pid}/{tid}/lookups", "{name}")
        + _slices(ended, "{pid}/connection {connection}/connection", peer, "lifetime_ns", ending=True)
        + _slices(flows, of_flow, peer, "lifetime_ns", ending=True)
    )
    assert (len(rows["dns"]), len(ended)) == (2 * 7, 2 * 7)
    assert Counter(row["queries"] for row in rows["dns_lookup"]) == {2: 7, 0: 7}, "of the names, and of their addresses"
    assert len([row for row in flows if row["remote_port"] == 53]) == 7
    queries = {track for track, *_ in timeline.slices if timeline.place(track).endswith("/dns")}
    assert len(queries) == 2, "what overlaps is in two rows of the thread's"


def test_arrows_lead_from_lookups_to_their_queries(tmp_path: Path) -> None:
    """Perfetto draws an arrow from each lookup through the queries that its thread sent for it."""
    _, rows = _drawn(tmp_path, "dns", "--", *resolving(tmp_path, "fetch", 5))
    at = "(SELECT name || ' ' || ts FROM slice WHERE id = slice_{})"
    (arrows,) = sql(tmp_path / "a.pftrace", f"SELECT {at.format('out')}, {at.format('in')} FROM flow")
    queries = sorted(rows["dns"], key=lambda row: row["ktime_ns"])
    expected: list[tuple[str, str]] = []
    for lookup in rows["dns_lookup"]:
        its = [row for row in queries if row["looked_up"] == lookup["name"]]
        told = [f"{row['name']} {row['qtype']} {row['ktime_ns']}" for row in its]
        expected += pairwise([f"{lookup['name']} {lookup['ktime_ns']}", *told])
    assert sorted(map(tuple, arrows)) == sorted(expected)
    assert len(expected) == 2 * 5


def test_requests_to_disks(tmp_path: Path) -> None:
    """Each request is a slice of a disk below its process, as long as it was in the device, though seven are there at
    once."""
    if not shutil.which("fio"):
        pytest.skip("fio is not installed; `deploy/install-packages.sh test` installs it")
    with loop_disk(tmp_path / "disk") as disk:
        Path("/sys/block", Path(disk).name, "queue/nomerges").write_text("2")  # neighbours stay requests of their own
        job = ["--name=both", "--rw=randrw", "--size=4m", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=7"]
        timeline, rows = _drawn(tmp_path, "block", "--", "fio", *job, f"--filename={disk}")
    requests = "{pid}/disk {disk}/requests"
    assert timeline.placed() == _slices(rows["block"], requests, "{operation}", "device_ns", ending=True)
    its = [row for row in rows["block"] if row["disk"] == Path(disk).name]  # fio reads its own code from another
    assert (len(its), {row["bytes"] for row in its}) == (1024, {4096})
    (place,) = {requests.format(**row) for row in its}
    begun = [(row["ktime_ns"] - row["device_ns"], 1) for row in its]
    at_once = max(accumulate(step for _, step in sorted([*begun, *((row["ktime_ns"], -1) for row in its)])))
    assert 1 < at_once <= 7
    lanes = {track for track, *_ in timeline.slices if timeline.place(track) == place}
    assert at_once <= len(lanes) <= at_once * (os.cpu_count() or 1), "each CPU has its rows"


def test_the_machine_has_counters(tmp_path: Path) -> None:
    """What `system` reads are counters: the machine's on their own, named by column; those of processes below them."""
    timeline, rows = _drawn(tmp_path, "system", "--duration", "7")
    percents = ("user_percent", "system_percent", "iowait_percent")
    pressures = ("cpu_pressure_percent", "memory_pressure_percent", "io_pressure_percent")
    drawn = {
        "system": ("", (*percents, *pressures, "memory_available_bytes")),
        "system_disk": ("disk", ("read_bytes", "written_bytes", "busy_percent")),
        "system_network": ("interface", ("received_bytes", "sent_bytes")),
        "system_cgroup": (
            "cgroup",
            ("cpu_percent", "memory_bytes", "read_bytes", "written_bytes", "throttled_percent"),
        ),
        "system_process": ("", ("cpu_percent", "rss_bytes")),
    }
    assert {"system", "system_network", "system_process"} <= rows.keys() <= drawn.keys() | {"began"}
    expected = Counter(
        (
            (f"{row['pid']}/" if "pid" in row else "") + (f"{column}: {by} {row[by]}" if by else column),
            row["ktime_ns"],
            row[column],
        )
        for stream, (by, columns) in drawn.items()
        for row in rows.get(stream, [])
        for column in columns
        if row[column] is not None
    )
    assert Counter((timeline.place(track), time, value) for track, time, value in timeline.counters) == expected
    assert {"user_percent", "memory_available_bytes"} <= {place for place, *_ in expected}
    units = {timeline.path(track)[-1]: timeline.tracks[track].counter for track, *_ in timeline.counters}
    assert units["user_percent"].unit_name == "%"
    assert units["memory_available_bytes"].unit == proto.CounterDescriptor.UNIT_SIZE_BYTES


def test_scheduling_is_that_of_the_rows(tmp_path: Path) -> None:
    """Times on a CPU and wakeups are those of the rows, on their CPUs, to the nanosecond."""
    path, file = tmp_path / "a.pftrace", tmp_path / "a.json"
    command = [*SCOPE, "trace", "sched", "--perfetto", str(path), "--json", str(file), "--"]
    loop = "for i in 1 2 3 4 5; do sleep 0.01 & i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; done; wait"
    subprocess.run([*command, "sh", "-c", f"({loop}) & ({loop}) & ({loop}) & wait"], capture_output=True, check=True)
    found = _read(path).scheduling
    rows = [row for row in map(json.loads, file.read_text().splitlines()) if row["type"] == "switch"]
    ran = [row for row in rows if row["on_cpu_ns"] is not None]
    assert len(ran) >= 19, "each process leaves its CPU when it ends"
    assert sorted((cpu, tid, begin + ns, ns) for cpu, tid, begin, ns, _ in found.slices) == sorted(
        (row["cpu"], row["tid"], row["ktime_ns"], row["on_cpu_ns"]) for row in ran
    )
    assert sorted(found.wakeups) == sorted(
        (row["ktime_ns"] - row["on_cpu_ns"] - row["run_queue_ns"], row["tid"], row["waker_tid"])
        for row in ran
        if row["waker_tid"] is not None and row["run_queue_ns"] is not None
    )


def test_the_same_is_in_json(timeline: Timeline, program: Path) -> None:
    """The timeline and --json have equally many calls of each function."""
    command = [*SCOPE, "trace", "cuda", "--json", "--", str(program), *WORDS]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    calls = Counter(row["function"] for row in map(json.loads, lines) if row["type"] == "cuda_call")
    of_threads = [name for track, name, *_ in timeline.slices if timeline.tracks[track].HasField("thread")]
    assert Counter(of_threads) == calls
