"""The console in a browser, against the real stack. Pictures of all screens are kept in build/console-pictures."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.e2e import counted, hostile_texts
from tests.e2e.conftest import Up, until
from tests.e2e.console import PICTURES, Browser
from tests.e2e.waits import ANSWERED, BLOCK, ROUNDS, SENT
from tests.llm.runs import stopped
from tests.llm.tiny_model import write
from tests.ports import free_port
from tests.probes.cuda_programs import Nvcc, StandIn
from tests.trace_processor import sql

from scope_catalogue import catalogue
from scope_cli.errors import CommandError, ServerUnreachable

# Calls that return at once, and now and then one that takes 30 ms.
WORKLOAD = """\
import os, time
while True:
    [os.getppid() for _ in range(500)]
    [os.urandom(1 << 16) for _ in range(60)]
    time.sleep(1)
"""
pytestmark = pytest.mark.timeout(1800)  # all screens at once, on a machine of any speed
SLOWED = Path(__file__).with_name("slowed_llama.py")
WAITS = Path(__file__).with_name("waits.py")
CLOCK_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
STORM = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nfor _ in range(200_003): os.getppid()\n"
HOSTILE = [
    "<img src=x onerror=window.ran=1>",
    "\u202egpj.exe\u2066\x1b[2J",
    "</script><script>ran=1</script>",
    "x" * 4096,
]
SERVES = "runpy.run_module('http.server', run_name='__main__')"
REQUESTS = 13
_DEFINED = ("node", "probe", "target", "options", "where", "duration")
SAID_IN_ENGLISH = re.compile(r"of its threads' time|of CPU time: | more than usual|; usual is ")
HOG = "#!/bin/sh\nwhile :; do :; done\n"
SCREENS = {
    "overview": "/?since=5m",
    "nodes": "/nodes",
    "processes": "/processes?since=5m",
    "tasks": "/tasks?view=all",
    "start": "/start?probe=syscalls",
    "start-labels": "/start?labels=role%3Dconsole&template=slow",
    "streams": "/explore",
    "explore": "/explore/syscall_summary?since=5m",
    "groups": "/explore/syscall_summary?since=5m&view=groups",
    "empty": "/explore/ollama_model",
    "why": "/why",
    "flames": "/flames/profile",
    "llm": "/llm",
    "gpu": "/gpu",
    "python": "/python?since=5m",
    "syscalls": "/syscalls?since=5m",
    "scheduling": "/scheduling?since=5m",
    "losses": "/losses?since=5m",
    "traces": "/traces?with=exec",
    "account": "/users",
    "accounts": "/users?view=accounts",
    "audit": "/users?view=audit",
    "settings": "/users?view=settings",
    "storage": "/users?view=storage",
    "missing": "/nowhere",
}
OUTSIDE = {"sign-in": "/sign-in", "register": "/register", "invitation": "/register?invitation=4711"}
DIALOGS = {  # of these screens: what opens them, one after the other
    "nodes": {"go-to": [".goto-button"], "person": [".person"], "join": ["header .primary", ".card .primary"]},
    "explore": {"columns": [".views .button >> nth=0"], "downloads": [".views .button >> nth=1"], "row": [".rows-row"]},
}


@pytest.fixture(scope="module")
def browser(up: Up) -> Iterator[Browser]:
    """One for all tests of this file."""
    started = Browser(up)
    yield started
    started.close()


@pytest.fixture(scope="module")
def workload() -> Iterator[subprocess.Popen[bytes]]:
    """A program with calls that are fast, or take some CPU, or are slow."""
    with subprocess.Popen([sys.executable, "-c", WORKLOAD]) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def acts(up: Up, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """When each act of slowed_llama.py began and ended; tokens and threads are recorded all the time."""
    folder = tmp_path_factory.mktemp("slowed")
    model, hog, told = folder / "tiny.gguf", folder / "greedy", folder / "told"
    write(model)
    hog.write_text(HOG)
    hog.chmod(0o755)
    with stopped([sys.executable, str(SLOWED), str(model), str(hog)], told) as pid:
        tasks = [_started(up, pid, "llama"), _started(up, pid, "profile", "-o", "record=cpu,off_cpu")]
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    played = [line for line in map(json.loads, told.read_text().splitlines()) if "act" in line]
    _ended(up, *tasks)
    return {act["act"]: act for act in played}


@pytest.fixture(scope="module")
def waited(up: Up) -> int:
    """A process that waited for a lock, a disk and a peer, recorded whole by the probes that tell of them."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    file = PICTURES / "waits"  # on a disk: what is below /tmp may be in memory
    with stopped([sys.executable, str(WAITS), str(file)], PICTURES / "waits.told") as pid:
        summaries = (("why",), ("block", "--mode", "summary"), ("net", "--mode", "summary"))
        tasks = [_started(up, pid, *words) for words in (*summaries, ("locks",))]
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    file.unlink()
    _ended(up, *tasks)
    return pid


@pytest.fixture(scope="module")
def cuda(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A program that launches, copies, fails and leaks on a stand-in for CUDA, recorded whole; it has not ended."""
    program = StandIn(tmp_path_factory.mktemp("stand_in")).build(
        Nvcc(tmp_path_factory.mktemp("nvcc")), "memory", "cuda_memory.cu"
    )
    with subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "ready\n"
        task = _started(up, process.pid, "cuda")
        process.stdin.write("x")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        where = f"pid = {process.pid} and live_count = 101"
        until(lambda: bool(up.client.get("events", "cuda_live", where=where)["events"]))
        yield process.pid
        process.stdin.close()
    _ended(up, task)


@pytest.fixture(scope="module")
def served(up: Up, tmp_path_factory: pytest.TempPathFactory) -> int:
    """A server in Python, whose connections are recorded: the process. It was asked `REQUESTS` times."""
    stops = f"import os, signal, runpy; os.kill(os.getpid(), signal.SIGSTOP); {SERVES}"
    port, told = free_port(), tmp_path_factory.mktemp("served") / "told"
    with stopped([sys.executable, "-c", stops, str(port), "--bind", "127.0.0.1"], told, told.parent) as pid:
        task = _started(up, pid, "net")
        os.kill(pid, signal.SIGCONT)
        until(lambda: _answered(port))
        for _ in range(REQUESTS - 1):
            assert _answered(port)
        until(lambda: len(up.client.get("events", "connection", where=f"pid = {pid}")["events"]) == REQUESTS)
    _ended(up, task)
    return pid


def _answered(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/told") as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False


def _started(up: Up, pid: int, *words: str) -> str:
    return up.scope("start", "local", *words, "--pid", str(pid)).stdout.strip()


def _ended(up: Up, *tasks: str) -> None:
    """Ends tasks, and waits until all that they recorded is stored."""
    for task in tasks:
        assert up.scope("stop", task).returncode == 0
        until(lambda task=task: all(each["under_way"] == 0 for each in up.client.get("tasks", task)["streams"]))


@pytest.fixture(scope="module")
def filled(acts: dict[str, Any], waited: int, cuda: int, served: int) -> dict[str, str]:
    """Screens of programs that were recorded, by name."""
    assert acts
    return {
        "why-process": f"/why?pid={waited}",
        "connections": f"/explore/connection?where=pid%20%3D%20{served}",
        "launches": f"/explore/cuda_launch?where=pid%20%3D%20{cuda}%20and%20nested%20%3D%200",
    }


@pytest.mark.parametrize("look", [{"language": "en", "theme": "dark"}, {"language": "zh", "theme": "light"}])
def test_every_screen(up: Up, browser: Browser, filled: dict[str, str], look: dict[str, str]) -> None:
    """Each screen and dialog opens in both languages and themes, with data: no error, nothing too wide. In English also
    on a phone, and without a grave fault of accessibility in either theme. Numbers that the recorded programs fix are
    there.
    """
    (node,) = up.client.get("nodes")["nodes"]
    task = up.client.get("tasks", state="active")["tasks"][0]["task_id"]
    screens = SCREENS | filled | {"node": f"/nodes/{node['machine_id']}", "task": f"/tasks/{task}"} | OUTSIDE
    closely = look["language"] == "en"
    how = {**look, "kind": "-".join(look.values()), "closely": closely, **browser.person("admin")}
    found = browser.run("screens", screens=screens, dialogs=DIALOGS, **how)
    assert {screen["name"] for screen in found} == set(screens).union(*DIALOGS.values())
    inside, outside = {"en": ("Overview", "Password"), "zh": ("概览", "密码")}[look["language"]]
    for screen in found:
        assert (screen["wrong"], screen["faults"]) == ([], []), screen["name"]
        assert screen["wide"] <= 0, screen["name"]
        assert (outside if screen["name"] in OUTSIDE else inside) in screen["text"], screen["name"]
        assert closely or not SAID_IN_ENGLISH.search(screen["text"]), screen["name"]
    if closely:
        assert [screen["name"] for screen in found if screen["wideOnPhone"] > 0 or screen["emptied"]] == []
        texts = {screen["name"]: screen["text"] for screen in found}
        assert f"all {REQUESTS} rows" in texts["connections"]
        assert "all 15 rows" in texts["launches"]


def test_every_probe_was_tried(up: Up) -> None:
    """The agent tries each once; here, screens have asked for it before."""

    def told() -> list[str]:
        with suppress(ServerUnreachable):  # it still tries them
            return [probe["name"] for probe in up.client.get_probes()["probes"]]
        return []

    until(lambda: bool(told()), 450)
    assert told() == sorted(catalogue.probes())


def test_filter_and_selection_are_kept_on_every_screen(
    up: Up, browser: Browser, workload: subprocess.Popen[bytes]
) -> None:
    """The bar keeps them when the screen changes; what a screen shows is filtered, or the bar says that it is not. It
    offers values that rows have.
    """
    begun, value = f"pid = {workload.pid} and name = ", "'getppid'"
    where = begun + value
    until(lambda: len(up.client.get("events", "syscall_summary", where=where)["events"]) > 1)
    now = datetime.now(UTC)
    window = {"since": _iso(now - timedelta(minutes=5)), "until": _iso(now)}
    typed = {"begun": f"{begun}'getp", "value": value}  # more names may be offered than are shown
    (found,) = browser.run("bar", stream="syscall_summary", **typed, **window, **browser.person("viewer"))
    assert found["wrong"] == []
    (first, *others), told = found["screens"], {screen["at"]: screen["told"] for screen in found["screens"]}
    assert first["where"] == where and first["brushed"].endswith("~syscall_summary")
    assert len(others) >= 11
    for screen in others:
        assert {name: screen[name] for name in ("since", "until", "where", "brushed", "filter")} == {
            **{name: first[name] for name in ("since", "until", "where", "brushed")},
            "filter": where,
        }, screen
    asked, selected = found["asked"], first["brushed"].split("~")[0]
    assert any(each.startswith(where) and each.endswith(selected) for each in asked["syscall_summary"]), asked
    assert f"null {selected}" in asked["sched_summary"]
    assert "Applied to: Syscalls, " in told["/"]
    lacks, _, named = told["/"].partition(", and so not filtered: ")
    assert "Without a column name" in lacks and named.startswith("Time on a CPU, "), told
    assert "Without a column name, and so not filtered: Processes." in told["/processes"]
    assert "Nothing on this screen is filtered" in told["/nodes"]
    assert (found["left"]["where"], found["left"]["brushed"], found["told"]) == (None, None, 0)
    assert found["groups"] == 40  # all, of which 20 are shown at first


def test_a_page_that_is_loaded_again_shows_the_same(
    up: Up, browser: Browser, workload: subprocess.Popen[bytes]
) -> None:
    """What is typed to start a task, an open row, a held tail, and a flame graph's zoom, search and other window."""
    task = _started(up, workload.pid, "profile")
    where = f"pid = {workload.pid}"
    until(lambda: len(up.client.get("events", "profile", where=where)["events"]) > 1)
    now = datetime.now(UTC)
    window = {"since": _iso(now - timedelta(minutes=5)), "until": _iso(now)}
    found = browser.run("address", stream="syscall_summary", stacks="profile", **window, **browser.person("operator"))
    up.client.post("tasks", task, "stop")
    assert [page["name"] for page in found] == ["start", "row", "live", "flames"]
    for page in found:
        assert page["before"] == page["after"] and page["wrong"] == [], page
    start, _, _, flames = (page["before"] for page in found)
    for part in ("mode=summary", "interval_ms=500", "--comm python3", "--duration 77"):
        assert part in start
    assert "py" in flames["typed"] and "Inverted" in flames["pressed"]


def test_tasks_on_machines_by_label(up: Up, browser: Browser) -> None:
    """A template, and a probe with a filter that was completed, start where the label is; the shown commands start the
    same."""
    (node,) = up.client.get("nodes")["nodes"]
    up.client.post("nodes", node["machine_id"], "labels", body={"role": "console"})
    (found,) = browser.run("start", label="role=console", comm="scope-e2e", **browser.person("operator"))
    assert (found["wrong"], found["faults"], max(0, found["wide"])) == ([], [], 0)
    assert found["on"].endswith(node["hostname"])
    assert found["offered"] == ["name"]
    for started, probes, where in zip(
        found["started"],
        (["files", "profile", "syscalls", "why"], ["syscalls"]),
        (None, "name = 'getppid'"),
        strict=True,
    ):
        by_page = _definitions(up, started["group"])
        assert [each["probe"] for each in by_page] == probes
        assert {each["where"] for each in by_page} == {where}
        assert all(each["target"] == {"comm": "scope-e2e"} for each in by_page)
        assert len(started["rows"]) == len(probes)
        ran = up.scope(*shlex.split(started["command"])[1:])
        assert (ran.returncode, _definitions(up, ran.stdout.strip())) == (0, by_page), ran.stderr
        for group in (started["group"], ran.stdout.strip()):
            up.client.post("groups", group, "stop")


def _definitions(up: Up, group: str) -> list[dict[str, Any]]:
    """What a group's tasks record."""
    tasks = up.client.get("groups", group)["tasks"]
    return sorted(({name: task[name] for name in _DEFINED} for task in tasks), key=lambda one: str(one["probe"]))


def test_the_gesture_by_keyboard(up: Up, browser: Browser, workload: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Start a task, brush its slowest calls, read what differs, where its threads were, a row, the trace around it in
    Perfetto: with Tab, Enter, arrows and letters alone.

    A stand-in answers at ui.perfetto.dev, which tests cannot reach; Perfetto's own trace processor reads what it got.
    """
    until(lambda: any(row["pid"] == workload.pid for row in _running(up)))
    profile, trace = _started(up, workload.pid, "profile", "-o", "record=cpu,off_cpu"), tmp_path / "trace.perfetto"
    (found,) = browser.run("gesture", pid=workload.pid, down=2, trace=str(trace), **browser.person("operator"))
    assert found["command"].startswith("scope start ") and f"--pid {workload.pid}" in found["command"]
    assert up.client.get("tasks", found["task"])["target"] == {"pid": workload.pid}
    differs = "\n".join(found["differs"])
    assert "clock_nanosleep" in differs, differs  # the call that the brushed rows have, and the others lack
    # The thread was blocked in this call only, and computed in others: the samples in the brushed rows are red.
    (blocked,) = (frame for frame in found["graph"] if frame["path"][2:] == ["blocked"])
    assert blocked["inside"] > blocked["outside"], found["graph"]
    assert (found["title"].startswith("SCOPE "), found["sent"]) == (True, [])
    assert (found["wrong"], found["faults"]) == ([], [])
    row = dict(line.split("\t")[:2] for line in found["row"].splitlines() if "\t" in line)
    assert row["name"] == "clock_nanosleep", found["row"]
    at = datetime.fromisoformat(found["time"])
    (opened,) = _slept(up, workload.pid, at)
    at_us = (at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
    of_row = (
        "SELECT slice.name, dur FROM slice JOIN thread_track ON track_id = thread_track.id JOIN thread USING (utid)"
        f" WHERE tid = {workload.pid} AND TO_REALTIME(ts) / 1000 BETWEEN {at_us - 1} AND {at_us + 1}"
    )
    assert sql(trace, of_row) == [[["clock_nanosleep", opened["duration_ns"]]]]
    for task in (found["task"], profile):
        up.client.post("tasks", task, "stop")


def _slept(up: Up, pid: int, at: datetime) -> list[Any]:
    """The sleeps of a process that began within a millisecond."""
    times = {"since": _iso(at), "until": _iso(at + timedelta(milliseconds=1))}
    where = f"pid = {pid} and name = 'clock_nanosleep'"
    return list(up.client.get("events", "syscall", where=where, **times)["events"])


def test_a_program_on_its_cpu_slows_a_request(browser: Browser, acts: dict[str, Any]) -> None:
    """Brushing its slow tokens tells that they waited for a CPU, and which program was on the CPUs meanwhile."""
    found = _brushed(browser, acts, "hog", least_ns=4_000_000, stacks=True)
    waits = [number for number, part in enumerate(found["parts"]) if "waiting for a CPU" in part]
    assert waits[:1] == [0], found
    assert any("greedy" in program for program in found["meanwhile"]), found
    # The flame graph of the samples in these tokens, against those in the others: red is the wait, by name.
    queued = [frame for frame in found["frames"] if frame["path"][2:] == ["run_queue"]]
    assert sum(frame["inside"] for frame in queued) > sum(frame["outside"] for frame in queued), found["frames"]


def test_a_long_prompt_of_another_request_slows_one(up: Up, browser: Browser, acts: dict[str, Any]) -> None:
    """Brushing its slow tokens tells that another request's prompt slowed them."""
    times = {name: _iso(datetime.fromtimestamp(acts["prompts"][name], UTC)) for name in ("since", "until")}
    slow = up.client.get("slowest", "llama_token", limit=1, **times)
    longest_ns = slow["median_ns"] + slow["slowest"][0]["longer_ns"]
    found = _brushed(browser, acts, "prompts", least_ns=longest_ns // 2)
    assert found["causes"][:1] and found["causes"][0].startswith("another request's prompt"), found


def _iso(time: datetime) -> str:
    """As an address has it: without a `+`, which would be a blank there."""
    return time.isoformat().replace("+00:00", "Z")


def _brushed(browser: Browser, acts: dict[str, Any], act: str, *, least_ns: int, stacks: bool = False) -> Any:
    """What the console says of the tokens of an act that took longer.

    Args:
        stacks: so many samples were taken meanwhile that there is a flame graph of them.
    """
    its = acts[act]
    begun, ended = acts["usual"]["since"] - 1, acts["prompts"]["until"] + 1
    window = {name: _iso(datetime.fromtimestamp(at, UTC)) for name, at in (("since", begun), ("until", ended))}
    brush = {"begin": its["since"] + 0.2, "end": its["until"] - 0.2, "least": least_ns, "stacks": stacks}
    (found,) = browser.run("cause", name=act, **window, **brush, **browser.person("viewer"))
    assert found["clicks"] <= 4
    assert found["wrong"] == []
    return found


@pytest.mark.parametrize("look", [{"theme": "dark"}, {"theme": "light", "size": {"width": 390, "height": 844}}])
def test_why_shows_locks_disks_and_peers(browser: Browser, waited: int, look: dict[str, Any]) -> None:
    """With whom holds a lock, and how much went to a disk and a peer: numbers that the program itself fixes. A filter
    of a thread is applied to the stacks alone, and the page says so.
    """
    where = "thread_comm = 'holds'"
    (found,) = browser.run("why", pid=waited, where=where, **look, **browser.person("viewer"))
    assert (found["wrong"], found["faults"], max(0, found["wide"])) == ([], [], 0)
    assert found["where"].startswith(f"pid = {waited} and ") and found["where"].endswith(f" and {where}")
    applied = "Applied to: Where it was blocked, by stack. Not filtered: Its times, threads and calls."
    assert " ".join(found["applied"].split()) == applied
    held = [line for line in found["cards"]["Locks"] if ", held by holds " in line]  # Python has locks of its own, too
    assert any(f"{ROUNDS}×" in line for line in held), found
    (disk,) = (line for line in found["cards"]["Disks"] if " write" in line)
    assert f"{ROUNDS}× · {ROUNDS * BLOCK // 1024} KiB" in disk, found
    sent, answered = f"{ROUNDS * SENT / 1024:.1f} KiB", f"{ROUNDS * ANSWERED / 1024:.2f} KiB"
    peers = [line.split("\t") for line in found["cards"]["Peers"]]
    assert {(line[0], line[2], line[5], line[6]) for line in peers} == {
        ("127.0.0.1", "outgoing", sent, answered),
        ("127.0.0.1", "incoming", answered, sent),
    }


def test_subjects_tell_what_a_program_did(up: Up, browser: Browser, tmp_path: Path) -> None:
    """Calls of Python functions, files and switches of CPUs: numbers that the program itself fixes."""
    file = PICTURES / "counted"
    command = ["/usr/bin/python3", counted.__file__, str(file)]
    with stopped(command, tmp_path / "told") as pid:
        summaries = (("python", "--mode", "summary"), ("files", "--mode", "summary"))
        tasks = [_started(up, pid, *words) for words in (*summaries, ("files",), ("sched",))]
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    for task in tasks:
        assert up.scope("stop", task).returncode == 0
        until(lambda task=task: all(each["under_way"] == 0 for each in up.client.get("tasks", task)["streams"]))
    screens = {name: f"/{name}?since=5m" for name in ("python", "syscalls", "scheduling")}
    told = browser.run("cards", screens=screens, **browser.person("viewer"))
    for screen in told:
        assert (screen["wrong"], screen["faults"], max(0, screen["wide"])) == ([], [], 0), screen["name"]
    python, syscalls, scheduling = (screen["cards"] for screen in told)
    assert f"counted\n{counted.CALLS}" in python["Functions by calls"]
    assert f"{file}\n{counted.READS * counted.BLOCK // 1024} KiB" in syscalls["Files by bytes read"]
    assert f"{file}.missing\n{counted.MISSING}" in syscalls["Files that could not be opened"]
    switches = dict(line.split("\n") for line in scheduling["Switches by program"])
    assert int(switches[counted.NAME]) >= counted.SLEEPS
    file.unlink()


def test_the_gpu_screen_tells_what_a_program_did(browser: Browser, cuda: int) -> None:
    """Launches by what their kernels compute, copies, failed calls and leaks: numbers that the program itself fixes."""
    assert cuda
    (told,) = browser.run("cards", screens={"gpu": "/gpu?since=1h"}, **browser.person("viewer"))
    assert (told["wrong"], told["faults"], max(0, told["wide"])) == ([], [], 0)
    cards = told["cards"]
    assert cards["Launches by kind of kernel"] == ["attention\n13", "other\n2"]
    (copies,) = cards["Copies by direction"]
    assert copies.split("\t")[:3] == ["H2D", "7", "7 MiB"]
    assert "cudaMalloc\n1" in cards["Calls that failed"]
    (leak,) = (
        line for line in cards["GPU memory that is not freed, by the code that allocated it"] if "leak(int)" in line
    )
    assert leak.split("\t")[4:7:2] == ["30.3 KiB", "101"]


@pytest.mark.parametrize("look", [{"theme": "dark"}, {"theme": "light", "size": {"width": 390, "height": 844}}])
def test_processes_are_a_live_tree(browser: Browser, tmp_path: Path, look: dict[str, Any]) -> None:
    """A child that begins and ends while the page is open gets there by itself: below its parent, with its status.

    The link to why names the process, not only its pid. A filter leaves it and those above it; Why says of a machine
    that none meets it."""
    mark, begin = uuid.uuid4().hex[:8], tmp_path / "begin.png"
    parent, child = f"parent-{mark}", f"child-{mark}"
    script = 'until [ -e "$1" ]; do sleep 0.2; done; sh -c "exit 3" "child-$2"; read line'
    with subprocess.Popen(["sh", "-c", script, parent, begin, mark], stdin=subprocess.PIPE) as process:
        names = {"find": mark, "parent": parent, "child": child, "begin": str(begin)}
        begun_ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
        (found,) = browser.run("processes", **names, **look, **browser.person("viewer"))
    assert found["waited"] and (found["wrong"], found["faults"], max(0, found["wide"])) == ([], [], 0)
    begun, ended = found["parent"], found["child"]
    assert (int(begun["cells"][1]), begun["cells"][3].strip()) == (process.pid, "–")
    assert ended["indent"] == begun["indent"] + 14
    assert ended["cells"][3].split()[1] == "3"
    assert ended["cells"][5] != "–"  # its time on CPUs, which its end tells
    assert found["closed"] == 0
    filtered = [int(pid) for pid in found["ended"]["pids"]]
    assert filtered[-2:] == [process.pid, int(ended["cells"][1])] and len(filtered) < 20
    assert found["ended"]["told"] == "Applied to: Processes."
    assert "Nothing was recorded of processes that meet the filter." in found["nobody"]["says"]
    applied = found["nobody"]["told"].removeprefix("Applied to: ").removesuffix(".")
    assert sorted(applied.split(", ")) == ["The machine in this window", "Which process?"]  # as they got there
    why = {name: values[0].strip('"') for name, values in parse_qs(urlsplit(found["why"]).query).items()}
    assert (int(why["pid"]), int(why["start"]) // CLOCK_TICK_NS) == (process.pid, begun_ticks)


def test_a_server_that_is_away_slow_restarted_or_upgraded(up: Up, browser: Browser) -> None:
    """The open page says each of it, goes on by itself, and keeps what was typed."""
    (found,) = browser.run("away", server=part_pid(up, "server"), **browser.person("admin"))
    until(lambda: _answers(up))
    assert found["away"] == [True, "77"]
    assert found["back"] == [False, "77"]
    assert found["slow"]
    assert "This takes the server too long" in found["late"]["says"]
    assert found["late"]["asked"] == 1, "what took too long was asked again"
    assert any(each.endswith(": the query takes too long; narrow it") for each in found["late"]["wrong"])
    assert found["upgraded"] == [True, "77", "77"]
    assert "GPU" in found["broken"]
    assert found["live"] == ["away", "open"]
    assert found["rows"]
    before, killed, disconnected, restarted = found["typing"]
    assert before == killed == disconnected and {"500", "77", "name = 'getp"} <= set(before["values"])
    assert restarted["values"] == [each.replace("getp", "getpid'") for each in before["values"]]
    assert restarted["focus"] == before["focus"]
    for part in ("interval_ms=500", "--duration 77", "getpid"):
        assert part in found["command"]


@pytest.fixture(scope="module")
def hostile(up: Up, tmp_path_factory: pytest.TempPathFactory) -> int:
    """A program with hostile texts in all that it can choose, recorded with its files."""
    folder = tmp_path_factory.mktemp("hostile")
    command = ["/usr/bin/python3", hostile_texts.__file__, str(folder / "files"), *HOSTILE]
    with stopped(command, folder / "told") as pid:
        tasks = [_started(up, pid, "files"), _started(up, pid, "files", "--mode", "summary")]
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    _ended(up, *tasks)
    shutil.rmtree(folder)
    until(lambda: len(up.client.get("events", "exec", where=f"ppid = {pid}")["events"]) == 1)
    return pid


def test_hostile_texts_change_no_page(browser: Browser, hostile: int) -> None:
    """Names of programs and files, and arguments, with markup, escapes, bidi controls and 4,096 characters are shown as
    text: those of a real program, as it was recorded, and those that the server might answer.
    """
    of_it = f"since=1h&where=pid%20%3D%20{hostile}"
    recorded = [
        (f"/explore/exec?{of_it}%20or%20ppid%20%3D%20{hostile}", ".rows-row"),
        (f"/explore/open?{of_it}", ".rows-row"),
        *((f"/{screen}?{of_it}", "") for screen in ("syscalls", "processes")),
        (f"/why?pid={hostile}&since=1h", ""),
    ]
    (found,) = browser.run("hostile", recorded=recorded, texts=HOSTILE, **browser.person("admin"))
    for screen in found:
        assert screen["ran"] is None, screen
        assert (screen["elements"], screen["controls"]) == (0, 0), screen
        assert screen["wide"] <= 0, screen
        assert screen["wrong"] == [], screen
    assert [screen["address"] for screen in found[: len(recorded)] if not screen["markup"]] == []
    assert any(screen["markup"] for screen in found[len(recorded) :])


def test_annotations_and_losses_are_on_charts(up: Up, browser: Browser) -> None:
    """On a heatmap and on lines: where they happened, with their texts under the pointer."""
    losses = _lost(up)
    begun, ended = (datetime.fromisoformat(losses[0][name]) for name in ("since", "until"))
    middle = begun + (ended - begun) / 2
    text, around = f"step {uuid.uuid4().hex[:6]}", timedelta(minutes=3)
    up.client.post("annotations", body={"text": text, "time": begun.isoformat(), "until": ended.isoformat()})
    window = {"since": (middle - around).isoformat(), "until": (middle + around).isoformat()}
    about = {"marks": ["●", "⚠"], "keys": [".loss-key", ".note-key"]}
    charts = [{"address": "/explore/syscall", "kind": "heatmap"}, {"address": "/", "kind": "chart"}]
    found = browser.run("marks", charts=[chart | about for chart in charts], **window, **browser.person("viewer"))
    assert [screen["keys"] for screen in found] == [["not all was recorded", "annotations"]] * 2
    for screen in found:
        assert f"● {text}" in screen["told"]
        assert f"⚠ {losses[0]['count']:,}: the agent was slower than the events" in screen["told"], (screen, losses)


def test_times_without_a_task_are_on_charts(up: Up, browser: Browser) -> None:
    """Nothing is drawn as if nothing had happened: a chart says when no task recorded its rows, and before when."""
    begun = datetime.now(UTC)
    for _ in range(2):
        _ended(up, _started(up, os.getpid(), "signals"))
    unrecorded = up.client.get("losses", stream="signal", since=begun.isoformat())["unrecorded"]
    first, gap, _ = ([datetime.fromisoformat(each[name]) for name in ("since", "until")] for each in unrecorded)
    middle = gap[0] + (gap[1] - gap[0]) / 2
    around = middle - first[1] + timedelta(minutes=1)
    window = {"since": (middle - around).isoformat(), "until": (middle + around).isoformat()}
    chart = {"address": "/explore/signal", "kind": "chart", "marks": ["no task recorded this"], "keys": [".off-key"]}
    (found,) = browser.run("marks", charts=[chart], **window, **browser.person("viewer"))
    assert found["keys"] == ["no task recorded"]
    assert found["partial"] == [f"Not recorded before {first[1].astimezone():%H:%M:%S}"]


def test_a_time_without_the_agent_is_on_charts(up: Up, browser: Browser) -> None:
    """A task was wanted, but nobody recorded: what happened meanwhile is not known, which the chart says."""
    begun = datetime.now(UTC)
    os.kill(part_pid(up, "agentd"), signal.SIGTERM)

    def gaps() -> list[Any]:
        losses = up.client.get("losses", stream="syscall_summary", since=begun.isoformat())["losses"]
        return [each for each in losses if each["reason"] == "not_recorded" and each["until"]]

    until(lambda: bool(gaps()))  # `scope up` has started another one
    since, ended = (datetime.fromisoformat(gaps()[0][name]) for name in ("since", "until"))
    middle, around = since + (ended - since) / 2, timedelta(minutes=3)
    window = {"since": (middle - around).isoformat(), "until": (middle + around).isoformat()}
    charts = [{"address": "/explore/syscall_summary", "kind": "heatmap"}, {"address": "/", "kind": "chart"}]
    about = {"marks": ["⚠ the task was wanted, but did not run"], "keys": [".loss-key"]}
    found = browser.run("marks", charts=[chart | about for chart in charts], **window, **browser.person("viewer"))
    assert [screen["keys"] for screen in found] == [["not all was recorded"]] * 2


def _lost(up: Up) -> list[Any]:
    """What the kernel lost of a task, whose ring was too small for its events."""
    told = PICTURES / "storm.told"
    with stopped([sys.executable, "-c", STORM], told) as pid:
        task = _started(up, pid, "syscalls", "-o", "ring_bytes=4096")
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    _ended(up, task)
    return [one for one in up.client.get("losses", stream="syscall")["losses"] if one["task_id"] == task]


def test_each_role(browser: Browser) -> None:
    """Without a login there is the sign-in only; a viewer starts nothing, and only an admin sees accounts and audit.

    What all screens need is asked for at once, not one after the other. Who comes back later is still signed in.
    """
    people = [browser.person(role) for role in ("viewer", "operator", "admin")]
    none, viewer, operator, admin, at = browser.run("roles", people=people, returning=browser.person("viewer", "back"))
    assert (none["signIn"], none["start"], none["next"]) == (1, 0, "/users")
    assert none["register"] == ["I was invited"]  # `scope up` lets nobody else register
    assert (viewer["signIn"], viewer["start"], operator["start"], admin["start"]) == (0, 0, 1, 1)
    assert [person["atOnce"] for person in (viewer, operator, admin)] == [True] * 3
    assert "Audit log" in admin["buttons"]
    assert "Audit log" not in viewer["buttons"] + operator["buttons"]
    assert at == "/users"


def part_pid(up: Up, part: str) -> int:
    """The process of the server or agent. `scope up` starts it again when it has ended."""
    listed = subprocess.run(
        ["ps", "-ww", "--ppid", str(up.process.pid), "-o", "pid=,args="], capture_output=True, text=True
    )
    (pid,) = (int(line.split()[0]) for line in listed.stdout.splitlines() if f"scope_cli.main {part}" in line)
    return pid


def _answers(up: Up) -> bool:
    try:
        return bool(up.client.get("health")["healthy"])
    except CommandError:
        return False


def _running(up: Up) -> list[Any]:
    rows: list[Any] = up.client.get("events", "sched_process_summary", limit=500)["events"]
    return rows
