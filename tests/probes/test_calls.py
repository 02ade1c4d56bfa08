"""calls.bpf.h, tested with a throw-away probe of functions: every call is recorded, or counted as lost at its place."""

import platform
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import Record, Recording

from scope_bpf.capture.account import PlaceAccount
from scope_bpf.catalogue.place import Place, Symbol
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream
from scope_bpf.errors import NotSupported
from scope_catalogue.options import Option
from scope_catalogue.stream import Column

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).parent / "workloads" / "visits.c"
DEPTH = 8  # nested calls that the probe keeps per thread
PROGRAM = """
#include "scope.bpf.h"

#include "calls.bpf.h"

struct visit_event {
	struct scope_header header;
	__u64 duration_ns;
	__s32 argument;
	__s32 result;
	__u16 place;
	__u8 depth; /* calls around it */
	__u8 returned;
	__u8 pad[4];
};

struct visits_place {
	__u32 number; /* of the argument that is told */
};

struct visit {
	struct scope_call call;
	__s32 argument;
	__u32 depth;
};

struct visitor {
	struct scope_thread thread;
	struct scope_calls calls;
	struct visit frames[%d];
};

SCOPE_STREAM(visit);
SCOPE_PLACES(struct visits_place);
SCOPE_THREADS(struct visitor);
SCOPE_CALLS(struct visitor, struct visit);

static __always_inline void emit(struct task_struct *task, struct visit *visit, __s32 result, bool returned)
{
	struct visit_event *event = scope_reserve(task, stream_visit, visit->call.entered_ns, sizeof(*event));

	if (!event)
		return;
	event->duration_ns = bpf_ktime_get_boot_ns() - visit->call.entered_ns;
	event->argument = visit->argument;
	event->result = result;
	event->place = visit->call.place;
	event->depth = visit->depth;
	event->returned = returned;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_visit, sizeof(*event));
}

SEC("uprobe")
int visit_begin(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct visits_place *place = place_numbered(number);
	struct visitor *visitor = place ? calling_thread(task, number, stream_visit) : NULL;
	struct visit *visit = visitor ? enter_call(ctx, visitor, number, stream_visit) : NULL;
	struct user_frame frame;
	__u64 args[CALL_ARGUMENTS];

	if (!visit)
		return 0;
	read_entry(ctx, &frame, args, 2);
	visit->argument = place->number ? args[1] : args[0];
	visit->depth = outer_call(visitor) ? outer_call(visitor)->depth + 1 : 0;
	visit->call.entered_ns = bpf_ktime_get_boot_ns();
	return 0;
}

SEC("uretprobe")
int visit_end(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct visitor *visitor = bpf_task_storage_get(&threads, task, 0, 0);
	struct visit *visit = visitor ? leave_call(ctx, visitor, bpf_get_attach_cookie(ctx)) : NULL;

	if (visit)
		emit(task, visit, PT_REGS_RC(ctx), true);
	return 0;
}

/* The calls in which a thread ends. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(visitor_gone, struct task_struct *task)
{
	struct visitor *visitor = bpf_task_storage_get(&threads, task, 0, 0);
	struct visit *visit;

	for (int i = 0; visitor && i < %d; i++) {
		visit = end_call(visitor);
		if (visit)
			emit(task, visit, 0, false);
	}
	return 0;
}

/* The calls that another program replaces. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(visitor_replaced, struct task_struct *task)
{
	struct visitor *visitor = bpf_task_storage_get(&threads, task, 0, 0);

	if (visitor)
		leave_all_calls(visitor);
	return 0;
}
"""


def places(options: Mapping[str, Any]) -> list[Place]:
    """A place for each requested function; the recorded argument is the second for visit, else the first."""
    return [
        Place(Symbol((name,)), "visit_begin", "visit_end", {"number": int(name == "visit")})
        for name in options["functions"]
    ]


FUNCTIONS = ("plus_one", "jump_to_plus_one", "count_down", "visit")
PROBE = Probe(
    name="visits",
    meaning="calls of the workload's library",
    streams=(
        Stream(
            "visit",
            "a call",
            columns={
                "duration_ns": Column("how long", "ns"),
                "argument": Column("its number"),
                "result": Column("what it returned"),
                "place": Column("which function"),
                "depth": Column("calls around it"),
                "returned": Column("or its thread ended in it"),
            },
        ),
    ),
    alternatives=(
        Alternative("uprobe_multi", ("visitor_gone", "visitor_replaced"), uprobe_multi=True),
        Alternative("uprobe", ("visitor_gone", "visitor_replaced")),
    ),
    extra_options=(Option("functions", "names", FUNCTIONS, "those that are attached to"),),
    places=places,
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workload, with its library beside it."""
    folder = tmp_path_factory.mktemp("visits")
    flags = ["gcc", "-O2", "-pthread"]
    library = folder / "libvisits.so"
    subprocess.run([*flags, "-DLIBRARY", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    subprocess.run([*flags, "-o", folder / "visits", SOURCE, library, f"-Wl,-rpath={folder}"], check=True)
    return folder / "visits"


@pytest.fixture(scope="module")
def object_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled probe."""
    folder = tmp_path_factory.mktemp("object")
    (folder / "visits.bpf.c").write_text(PROGRAM % (DEPTH, DEPTH))
    architecture = "arm64" if platform.machine() == "aarch64" else "x86"
    flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", f"-D__TARGET_ARCH_{architecture}"]
    flags += [f"-I{ROOT}/bpf/include", f"-I{ROOT}/bpf/vmlinux/{architecture}"]
    subprocess.run(["clang", *flags, "-c", folder / "visits.bpf.c", "-o", folder / "visits.bpf.o"], check=True)
    return folder


Visits = Callable[..., Recording]


@pytest.fixture(params=PROBE.alternatives, ids=lambda alternative: alternative.name)
def visits(
    record: Record,
    program: Path,
    object_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Visits:
    """Records the workload by each alternative, and checks that its accounts balance, per stream and per place."""
    monkeypatch.setattr("scope_bpf.catalogue.probe.OBJECTS", object_folder)
    probe = replace(PROBE, alternatives=(request.param,))

    def run(way: str, times: int, depth: int, **options: Any) -> Recording:
        try:
            recording = record(probe, [str(program), way, str(times), str(depth)], **options)
        except NotSupported as error:  # kernels have uprobe_multi since 6.6
            pytest.skip(str(error))
        account = recording.accounts["visit"]
        assert account.emitted == recording.count("visit") + sum(account.lost.values())
        assert account.emitted == sum(place.hits for place in recording.places)
        lost = sum((Counter(place.lost) for place in recording.places), Counter())
        assert account.lost == lost, "the stream has lost what its places have"
        return recording

    return run


def rows_of(recording: Recording) -> Counter[tuple[str, int, int, int]]:
    """The number of returned calls by function, argument, depth and result."""
    return Counter(
        (recording.places[row["place"]].name, row["argument"], row["depth"], row["result"])
        for row in recording.rows("visit")
        if row["returned"]
    )


def test_every_return_is_paired_with_its_entry(visits: Visits) -> None:
    """Sequential, recursive and tail calls each have their own result and depth."""
    recording = visits("return", times=101, depth=5)
    assert recording.status == 0
    wanted = {("count_down", 5 - depth, depth, 5 - depth): 101 for depth in range(6)}
    wanted |= {("plus_one", 5, 0, 6): 101, ("jump_to_plus_one", 6, 0, 7): 101, ("plus_one", 6, 1, 7): 101}
    assert rows_of(recording) == wanted
    assert recording.places == [
        PlaceAccount("plus_one", 1, 202),
        PlaceAccount("jump_to_plus_one", 1, 101),
        PlaceAccount("count_down", 1, 606),
        PlaceAccount("visit", 1, 0),
    ], "attached, no hits"


def test_recursion_deeper_than_is_kept(visits: Visits) -> None:
    """Outer calls have rows with results, inner ones are counted as lost (`too_deep`), and later calls are correct."""
    recording = visits("return", times=53, depth=40)
    rows = rows_of(recording)
    assert {row: count for row, count in rows.items() if row[0] == "count_down"} == {
        ("count_down", 40 - depth, depth, 40 - depth): 53 for depth in range(DEPTH)
    }
    assert rows["jump_to_plus_one", 41, 0, 42] == rows["plus_one", 40, 0, 41] == rows["plus_one", 41, 1, 42] == 53
    (place,) = [place for place in recording.places if place.lost]
    assert place == PlaceAccount("count_down", 1, 53 * 41, {"too_deep": 53 * (41 - DEPTH)})


@pytest.mark.parametrize("depth", [1, 3, DEPTH, 11])
def test_calls_that_are_left_by_a_jump(visits: Visits, depth: int) -> None:
    """Each left call is counted as lost, even if the next has the same stack address; later calls are not nested."""
    recording = visits("jump", times=17, depth=depth)
    kept = min(depth, DEPTH)
    assert rows_of(recording) == {("plus_one", 17, 0, 18): 1}
    lost = {"left": 17 * kept, "too_deep": 17 * (depth - kept)}
    lost = {reason: count for reason, count in lost.items() if count}
    assert recording.places[3] == PlaceAccount("visit", 1, 17 * depth, lost)


def test_a_jump_back_into_a_call(visits: Visits) -> None:
    """A call that a jump goes back into still returns, and its next call is one call deep."""
    recording = visits("jump-within", times=19, depth=4)
    wanted = {("visit", 4, 0, 2): 19} | {("count_down", 2 - depth, 1 + depth, 2 - depth): 19 for depth in range(3)}
    assert rows_of(recording) == wanted
    assert recording.places[3] == PlaceAccount("visit", 1, 19 * 5, {"left": 19 * 4})


@pytest.mark.parametrize(
    ("way", "times", "status"), [("threads", 13, 0), ("exit", 1, 7), ("kill", 1, -signal.SIGKILL)], ids=lambda way: way
)
def test_calls_in_which_a_thread_ends(visits: Visits, way: str, times: int, status: int) -> None:
    """Each call in which a thread ends is a row with `returned` 0, whatever ended the thread."""
    recording = visits(way, times=times, depth=3)
    assert recording.status == status
    rows = Counter((row["argument"], row["depth"], row["returned"]) for row in recording.rows("visit"))
    assert rows == {(2 - depth, depth, 0): times for depth in range(3)}
    assert len({row["tid"] for row in recording.rows("visit")}) == times
    assert recording.places[3] == PlaceAccount("visit", 1, times * 3)


def test_calls_that_another_program_replaces(visits: Visits) -> None:
    """Calls under way at an exec are counted as lost (`left`)."""
    recording = visits("exec", times=1, depth=5)
    assert recording.status == 0
    assert recording.count("visit") == 0
    assert recording.places[3] == PlaceAccount("visit", 1, 5, {"left": 5})


def test_places_come_from_options(visits: Visits) -> None:
    """Only requested functions have a place and are attached."""
    recording = visits("jump-within", times=7, depth=2, functions=["visit"])
    assert rows_of(recording) == {("visit", 2, 0, 2): 7}
    assert recording.places == [PlaceAccount("visit", 1, 7 * 3, {"left": 7 * 2})]


def test_only_hits_of_watched_processes_count(visits: Visits, program: Path) -> None:
    """Calls that another process makes to the same file at the same time are no hits."""
    script = f"{program} return 31 2"
    with subprocess.Popen(["sh", "-c", f"while :; do {script}; done"]) as other:
        try:
            recording = visits("return", times=101, depth=5)
        finally:
            other.kill()
    assert [place.hits for place in recording.places] == [202, 101, 606, 0]


def test_a_file_without_the_functions_is_not_attached_to(
    record: Record, object_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function found in no file has 0 files, unlike one that is attached but never called."""
    monkeypatch.setattr("scope_bpf.catalogue.probe.OBJECTS", object_folder)
    recording = record(PROBE, ["true"])
    assert recording.places == [PlaceAccount(name) for name in FUNCTIONS]
