"""`scope trace` as a user runs it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.probes.test_dns import resolving

from scope_catalogue.catalogue import probes

NO_CAPABILITIES = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
SCOPE = [sys.executable, "-m", "scope_cli.main"]


def scope(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SCOPE, *arguments], capture_output=True, text=True, timeout=240)


def test_a_command_is_traced_from_its_exec_to_its_end() -> None:
    """Nothing before the command's exec is recorded, and nothing after it is missed."""
    traced = scope("trace", "syscalls", "--json", "--", "/bin/true")
    assert traced.returncode == 0, traced.stderr
    calls = [json.loads(line) for line in traced.stdout.splitlines()]
    calls.sort(key=lambda call: int(call["ktime_ns"]))
    names = [call["name"] for call in calls]
    assert (names[0], names[-1]) == ("execve", "exit_group")
    assert names.count("execve") == 1
    assert f"{len(calls)} rows in " in traced.stderr
    assert "none lost" in traced.stderr


def test_children_of_the_command_are_followed() -> None:
    """Every process that the command starts is traced, grandchildren too."""
    traced = scope("trace", "process", "--json", "--", "sh", "-c", "sh -c 'ls / >/dev/null; true'; true")
    rows = [json.loads(line) for line in traced.stdout.splitlines() if line.startswith("{")]
    assert sorted(row["comm"] for row in rows if row["type"] == "exec") == ["ls", "sh", "sh"]


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [("exit 3", 3, "ended with status 3"), ("kill -TERM $$", 128 + 15, "was killed by SIGTERM")],
)
def test_the_commands_status_is_ours(script: str, status: int, said: str) -> None:
    """`scope trace` ends with the command's status, as a shell does. The command's output stays on standard output."""
    traced = scope("trace", "process", "--", "sh", "-c", f"echo heard; {script}")
    assert traced.returncode == status
    assert traced.stdout.startswith("heard\n\nexec: ")
    assert traced.stderr.endswith(f"; the command {said}\n")


def test_json_has_standard_output_for_itself() -> None:
    """With --json, the command's output goes to standard error: every line of standard output is an object."""
    traced = scope("trace", "process", "--json", "--", "sh", "-c", "echo heard")
    assert {json.loads(line)["type"] for line in traced.stdout.splitlines()} == {"exec", "exit"}
    assert traced.stderr.startswith("heard\n")


def test_a_time_of_day_is_in_every_object() -> None:
    """Each object has a time in RFC 3339 with nanoseconds, as exact as its ktime_ns."""
    before = datetime.now(UTC)
    traced = scope("trace", "syscalls", "--json", "--", "true")
    rows = [json.loads(line) for line in traced.stdout.splitlines()]
    for row in rows:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", row["time"])
        assert before < datetime.fromisoformat(row["time"][:26] + "+00:00") < datetime.now(UTC)
    nanoseconds = {int(row["time"][20:29]) - row["ktime_ns"] for row in rows}
    assert len({difference % 10**9 for difference in nanoseconds}) == 1


def test_several_probes_are_one_trace() -> None:
    """The command starts when all probes are attached: `syscalls` has as many execs and opens as the other probes."""
    traced = scope("trace", "syscalls,process,files", "--json", "--", "sh", "-c", "cat /etc/passwd > /dev/null; true")
    rows = [json.loads(line) for line in traced.stdout.splitlines()]
    kinds = Counter(row["type"] for row in rows)
    names = Counter(row["name"] for row in rows if row["type"] == "syscall")
    assert kinds["exec"] == names["execve"] == 2
    assert kinds["open"] == names["openat"]
    assert (kinds["fork"], kinds["exit"]) == (1, 2)
    assert f"{len(rows)} rows in " in traced.stderr


def test_each_probe_has_its_tables() -> None:
    """The tables are in the order in which the user named the probes."""
    traced = scope("trace", "files,process", "--", "true")
    titles = [line.partition(":")[0] for line in traced.stdout.splitlines() if re.match(r"(open|exec|exit): ", line)]
    assert titles == ["open", "exec", "exit"]


def test_rows_can_be_had_in_several_ways_at_once(tmp_path: Path) -> None:
    """One trace can write JSON and Parquet files of the same rows, and print tables. The files say since when."""
    files = ["--json", str(tmp_path / "a.json"), "--parquet", str(tmp_path / "a.parquet")]
    traced = scope("trace", "syscalls", *files, "--", "true")
    first, *rows = [json.loads(line) for line in (tmp_path / "a.json").read_text().splitlines()]
    table = pq.ParquetFile(tmp_path / "a.parquet").read()
    assert table["ktime_ns"].to_pylist() == [row["ktime_ns"] for row in rows]
    assert "\nsyscall: " in traced.stdout
    began = table.schema.metadata[b"began"].decode()
    assert first.keys() == {"type", "time"} and first["type"] == "began"
    assert f"{tmp_path}/a.json: {len(rows)} rows since {first['time']}" in traced.stderr
    assert f"{tmp_path}/a.parquet: {len(rows)} rows since {began}" in traced.stderr


def test_a_filter_chooses_rows() -> None:
    """--where prints only matching rows and their number. A note names the streams that lack its columns."""
    traced = scope(
        "trace", "syscalls,process", "--where", "ret = -2 and name != 'access'", "--json", "--", "ls", "/none"
    )
    rows = [json.loads(line) for line in traced.stdout.splitlines()]
    assert rows
    assert all(row["ret"] == -2 and row["name"] != "access" for row in rows)
    assert "no rows of exec, fork, exit are shown: they have no column for the filter\n" in traced.stderr
    assert re.search(rf"\d+ rows in .*, {len(rows)} meet the filter, none lost", traced.stderr)


def test_the_user_chooses_the_groups() -> None:
    """--by groups by the given columns, and enables the options that record them."""
    script = "for n in 1 2 3; do cat /etc/hostname; done"
    traced = scope("trace", "files", "--by", "pid,path", "--top", "100", "--", "sh", "-c", script)
    opens, _, _ = traced.stdout.partition("\nfile_op: ")
    rows = [line.split() for line in opens.splitlines() if "/etc/hostname" in line]
    assert len({pid for pid, *_ in rows}) == 3, traced.stdout
    assert [row[1:3] for row in rows] == [["/etc/hostname", "1"]] * 3
    made = scope("trace", "syscalls", "--by", "path", "--top", "100", "--", "cat", "/etc/hostname")
    assert "\n/etc/hostname " in made.stdout


def test_what_was_recorded_before_a_failure_is_kept(tmp_path: Path) -> None:
    """An output that fails ends the trace with status 1; the others are complete files."""
    file = tmp_path / "calls.parquet"
    traced = scope("trace", "syscalls", "--json", "/dev/full", "--parquet", str(file), "--", "find", "/etc")
    assert traced.returncode == 1
    assert "recording stopped: cannot write /dev/full: No space left on device" in traced.stderr
    assert "No space left on device" in traced.stderr
    assert pq.ParquetFile(file).read().schema.metadata[b"stream"] == b"syscall"


@pytest.mark.alone  # rows of a CPU that is kept from its reader for long come late
def test_lines_are_in_order_of_time() -> None:
    """--lines prints one line per row, by time. Each begins with the time of day, the stream and the thread's name."""
    traced = scope("trace", "process,files", "--lines", "--", "sh", "-c", "ls / > /dev/null; true")
    rows = [line.split() for line in traced.stdout.splitlines()]
    assert [line[0] for line in rows] == sorted(line[0] for line in rows)
    assert {line[1] for line in rows} == {"exec", "fork", "exit", "open", "file_op"}
    assert [line[2] for line in rows if line[1] == "exec"] == ["sh", "ls"]
    assert f"{len(rows)} rows in " in traced.stderr


def test_connections_and_the_lookups_before_them(tmp_path: Path) -> None:
    """Two probes record one command: each lookup, query and connection is a row of it, and a line of --lines.

    The command looks up 11 names, and connects to each before it looks up the next one.
    """
    file, count = tmp_path / "rows", 11
    silent = ["sh", "-c", 'exec "$@" > /dev/null', "sh", *resolving(tmp_path, "fetch", count)]
    traced = scope("trace", "net,dns", "--lines", "--json", str(file), "--", *silent)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(map(json.loads, file.read_text().splitlines()[1:]), key=lambda row: row["ktime_ns"]):
        rows.setdefault(row["type"], []).append(row)
    names = [f"site{n}.example.test" for n in range(count)]
    address, both = "192.0.2.7", (("a", "192.0.2.7"), ("aaaa", "2001:db8::7"))
    assert {stream: len(its) for stream, its in rows.items()} == {
        "connection": 2 * count,
        "dns": 2 * count,
        "dns_lookup": 2 * count,  # of the names, and of their addresses
    }
    assert len({row["pid"] for its in rows.values() for row in its}) == 1
    asked = Counter((row["name"], row["looked_up"], row["qtype"], row["answer"], row["code"]) for row in rows["dns"])
    assert asked == Counter((name, name, qtype, found, "noerror") for name in names for qtype, found in both)
    lookups = [row for row in rows["dns_lookup"] if row["queries"]]
    assert [(row["name"], row["queries"], row["result"]) for row in lookups] == [(name, 2, "ok") for name in names]
    of_connections = Counter(
        tuple(row[name] for name in ("direction", "is_first", "is_last", "sent_bytes", "received_bytes", "error"))
        for row in rows["connection"]
    )
    assert of_connections == {("outgoing", 1, 1, 1, 0, 0): count, ("incoming", 1, 1, 0, 1, 0): count}
    connects = [row for row in rows["connection"] if row["direction"] == "outgoing"]
    assert {(row["remote"], row["remote_port"]) for row in connects} == {(address, 8080)}
    begins = [row["ktime_ns"] - row["lifetime_ns"] for row in connects]
    ends = [row["ktime_ns"] + row["duration_ns"] for row in lookups]
    ordered = [time for pair in zip(ends, begins, strict=True) for time in pair]
    assert ordered == sorted(ordered), "a connect follows each lookup"
    lines = [line.split() for line in traced.stdout.splitlines()]
    assert Counter(line[1] for line in lines) == dict.fromkeys(rows, 2 * count)
    assert Counter(line[-1] for line in lines if line[1] == "dns") == {f"name={name}": 2 for name in names}
    told = Counter((line[5], line[6]) for line in lines if line[1] == "connection")
    assert told[f"{address}:8080", "direction=outgoing"] == count
    assert f"{6 * count} rows in " in traced.stderr
    assert "none lost" in traced.stderr


def test_a_watched_process_ends_the_trace(tmp_path: Path) -> None:
    """A trace with --pid P ends when P exits. P's exit is recorded."""
    watched = subprocess.Popen(["sh", "-c", "while [ ! -e end ]; do sleep 0.05; done"], cwd=tmp_path)
    command = [*SCOPE, "trace", "process", "--json", "--pid", str(watched.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as traced:
        assert traced.stdout
        first = traced.stdout.readline()  # now the trace records
        (tmp_path / "end").touch()
        rows = [json.loads(line) for line in (first, *traced.stdout)]
    watched.wait()
    assert traced.returncode == 0
    assert watched.pid in {row["pid"] for row in rows if row["type"] == "exit"}


@pytest.mark.parametrize(
    ("command", "reason", "status"),
    [("/nonsense", "No such file or directory", 127), ("/etc/passwd", "Permission denied", 126)],
)
def test_a_command_that_is_none_ends_it_as_a_shell(command: str, reason: str, status: int) -> None:
    """A command that cannot be run is reported in one line, with the reason and the status of a shell."""
    called = scope("trace", "syscalls", "--", command)
    assert (called.returncode, called.stdout) == (status, "")
    assert called.stderr == f"scope: cannot run '{command}': {reason}\n"


def test_an_exec_that_fails_is_recorded_and_said(tmp_path: Path) -> None:
    """If a file is not a program, its failed exec is recorded with the error. The status is that of a shell."""
    file = tmp_path / "file"
    file.write_text("no program")
    file.chmod(0o755)
    traced = scope("trace", "process", "--json", "--", str(file))
    assert traced.returncode == 126
    assert traced.stderr.splitlines()[-1] == f"scope: cannot run '{file}': Exec format error"
    rows = [json.loads(line) for line in traced.stdout.splitlines()]
    assert [(row["filename"], row["ret"]) for row in rows if row["type"] == "exec"] == [(str(file), -8)]


def test_the_command_has_the_environment_of_its_user(tmp_path: Path) -> None:
    """Variables that scope sets for itself are not in the command's environment."""
    show = ["sh", "-c", "env | sort"]
    scope("trace", "process", "--", "sh", "-c", f"env | sort > {tmp_path}/env")
    assert (tmp_path / "env").read_text() == subprocess.run(show, capture_output=True, text=True).stdout


def test_options_behind_the_dashes_are_the_commands_own() -> None:
    """`scope` never reads words after -- as its own options."""
    traced = scope("trace", "process", "--", "sh", "-c", "echo $0 $1", "--json", "--pid")
    assert "--json --pid" in traced.stdout


def test_interrupted_it_still_says_what_it_recorded(tmp_path: Path) -> None:
    """Ctrl-C ends a trace with status 0. The summary counts exactly the printed rows."""
    busy = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(0.01)"])
    command = [*SCOPE, "trace", "syscalls", "--json", "--pid", str(busy.pid)]
    said = tmp_path / "said"
    try:
        with said.open("w") as output:
            running = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while not said.stat().st_size and time.monotonic() < end:
            time.sleep(0.05)  # until it records
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=240)
    finally:
        busy.kill()
        busy.wait()
    assert running.returncode == 0
    rows = len(said.read_text().splitlines())
    assert rows
    assert errors.splitlines()[-1].startswith(f"{rows:,} rows in ")


def test_parquet_holds_every_row(tmp_path: Path) -> None:
    """The Parquet file has the rows that the summary line counts, under the stream's columns."""
    file = tmp_path / "calls.parquet"
    traced = scope("trace", "syscalls", "--parquet", str(file), "--", "ls", "/")
    table = pq.ParquetFile(file).read()
    assert f"{table.num_rows:,} rows in" in traced.stderr
    assert table.schema.metadata[b"stream"] == b"syscall"
    assert table.schema.field("duration_ns").metadata == {b"meaning": b"from entry to exit", b"unit": b"ns"}
    assert {"time", "ktime_ns", "pid", "comm", "name", "arg0", "ret", "duration_ns"} <= set(table.column_names)


def test_parquet_tells_when_recording_began(tmp_path: Path) -> None:
    """What was under way when recording began can be told: the file's metadata has that time. A command runs later."""
    file = tmp_path / "calls.parquet"
    scope("trace", "syscalls", "--parquet", str(file), "--", "true")
    found = pq.ParquetFile(file).read()
    began, now = datetime.fromisoformat(found.schema.metadata[b"began"].decode()), datetime.now(UTC)
    assert now - timedelta(minutes=5) < began < now
    assert began <= pc.min(found["time"].cast(pa.timestamp("us", "UTC"), safe=False)).as_py()


def test_parquet_of_several_streams_is_a_file_each(tmp_path: Path) -> None:
    """A probe with several streams writes one Parquet file per stream. The file's name contains the stream."""
    traced = scope("trace", "process", "--parquet", str(tmp_path / "p.parquet"), "--", "sh", "-c", "ls /; true")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.exec.parquet", "p.exit.parquet", "p.fork.parquet"]
    assert "p.exec.parquet: 2 rows" in traced.stderr


def test_a_duration_ends_it() -> None:
    """--duration ends a trace of the whole machine."""
    traced = scope("trace", "sched", "--mode", "summary", "--duration", "0.5")
    assert traced.returncode == 0
    assert "sched_summary" in traced.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["trace", "nonsense"],
            f"no probe named 'nonsense'; there are: {', '.join(sorted(probes()))}",
        ),
        (["trace", "syscalls", "--pid", "4194303"], "no process has pid 4194303"),
        (["trace", "syscalls", "-o", "nonsense=1"], "no option named 'nonsense'; there are: mode"),
        (["trace", "syscalls", "-o", "names=nonsense"], "option 'names': there is no 'nonsense'"),
        (["trace", "syscalls", "-o", "ring_bytes"], "write -o ring_bytes=VALUE"),
        (["trace", "syscalls", "-o", "ring_bytes=-1"], "option 'ring_bytes': '-1' is not from 0 to"),
        (["trace", "syscalls", "--mode", "both"], "option 'mode': 'both' is not one of events, summary"),
        (["trace", "syscalls", "--comm", "sixteen-bytes-xx"], "names have at most 15 bytes"),
        (["trace", "syscalls", "--exe", "/nonsense"], "cannot watch the executable '/nonsense'"),
        (["trace", "syscalls", "--cgroup", "/nonsense"], "there is no cgroup"),
        (["trace", "syscalls", "--container", "zz"], "no cgroup v2 belongs to a container 'zz'"),
        (["trace", "syscalls", "--by", "nme"], "--by: no column 'nme' (did you mean 'name'?); there are: arg0"),
        (["trace", "syscalls", "--mode", "summary", "--by", "latency"], "--by: no column 'latency'"),
        (["trace", "syscalls,files", "--by", "nr,flags"], "--by: no table has all of nr, flags; name columns of one"),
        (["trace", "syscalls", "--duration", "-1"], "--duration must be more than 0 seconds"),
        (["trace", "syscalls", "--pid", "1", "--", "ls"], "not both"),
        (["trace", "syscalls", "--pid", "0"], "target.pid: 0 is no process; leave it out to watch the whole machine"),
        (["trace", "syscalls", "--pid", "0", "--", "ls"], "not both"),
        (["trace", "syscalls", "--comm", ""], "target.comm: it is empty; leave it out to watch the whole machine"),
        (["trace", "syscalls", "-o", "names="], "option 'names': '' names nothing; leave the option out"),
        (["trace", "syscalls", "--where", "rat < 0"], "where, character 1: no column 'rat' (did you mean 'ret'?)"),
        (["trace", "syscalls", "--sort", "coutn"], "--sort: no column 'coutn' (did you mean 'count'?)"),
        (["trace", "syscalls", "--top", "0"], "--top must be at least 1"),
        (["trace", "syscalls", "--duration", "nan"], "--duration must be more than 0 seconds"),
        (["trace", "syscalls", "--json=/tmp/x", "--perfetto", "/tmp/x"], "several outputs go to /tmp/x"),
        (["trace", "syscalls", "--parquet", "/tmp"], "cannot write /tmp: it is a folder"),
        (["trace", "syscalls", "--where", "name = opnat"], "where: no name 'opnat' (did you mean 'openat'"),
        (["trace", "syscalls", "--comm", "sixteen-bytes-\udcff\udcff\udcff"], "names have at most 15 bytes"),
        (["trace", "syscalls", "--json", "--lines"], "--lines and --json both write to standard output"),
        (["trace", "syscalls", "ls"], "put -- before the command: scope trace syscalls -- ls"),
        (["trace", "span"], "option 'functions' is missing"),
        (["trace", "span", "malloc"], "'malloc', column 1: 'malloc' is not FILE:FUNCTION, such as libc:malloc"),
        (["trace", "span", "libc:malloc n=arg0->y"], "column 21: 'y' is not an offset in bytes"),
        (["trace", "span", "libc:mallok", "--", "true"], "since the file was stripped (did you mean 'malloc' or"),
        (["trace", "span", "libc:malloc", "-o", "functions=libc:free"], "option 'functions' is given twice"),
        (["trace", "--json", "syscalls"], "--json took 'syscalls' as its FILE; write PROBE first"),
        (["trace", "syscalls", "--"], "no command stands behind --; give one, or leave -- out"),
        (
            ["trace", "syscalls", "--mode", "summary", "-o", "mode=events"],
            "option 'mode' is given twice, as 'events' and as 'summary'; give it once",
        ),
        (["trace", "syscalls", "-o", "names=read", "-o", "names=write"], "option 'names' is given twice"),
        (["start", "local", "syscalls", "-o", "mode=events", "--mode", "summary"], "option 'mode' is given twice"),
        (["doctor", "--", "ls"], "only `scope trace` takes a command"),
        (["nonsense"], "argument COMMAND: 'nonsense' is not one of admin, "),
        (["trce", "syscalls"], ", trace, uninstall, up, why (did you mean 'trace'?)"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments: list[str], said: str) -> None:
    """A wrong command line is reported in one line on stderr; the status is 2."""
    called = scope(*arguments)
    assert called.returncode == 2
    assert said in called.stderr
    assert len(called.stderr.splitlines()) == 1
    assert called.stdout == ""


def test_without_privileges_it_names_the_capabilities() -> None:
    """Without capabilities, `scope trace` fails with status 1 and names the missing ones."""
    called = subprocess.run([*NO_CAPABILITIES, *SCOPE, "trace", "syscalls"], capture_output=True, text=True)
    assert called.returncode == 1
    assert called.stderr.startswith("scope: this process lacks CAP_BPF and CAP_PERFMON; run as root")


def test_a_closed_pipe_ends_it_quietly() -> None:
    """`scope trace --json | head -1` ends without a traceback."""
    command = f"{sys.executable} -m scope_cli.main trace syscalls --json -- ls /nonsense | head -1"
    piped = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30)
    assert piped.stdout.startswith("{")
    assert "Traceback" not in piped.stderr


def test_a_closed_pipe_is_no_error() -> None:
    """If the reader of the tables closes its pipe, the status is still 0."""
    command = f"{sys.executable} -m scope_cli.main trace syscalls -- true; echo status $? >&2"
    piped = subprocess.run(["bash", "-c", f"{{ {command}; }} | true"], capture_output=True, text=True, timeout=30)
    assert piped.stderr.endswith("status 0\n")
    assert "Traceback" not in piped.stderr


def test_syscalls_are_lines_as_strace_prints_them() -> None:
    """--lines prints syscalls in strace's format, with a heading. Arguments are decoded by default."""
    traced = scope("trace", "syscalls", "--lines", "-o", "names=openat", "--", "cat", "/nonsense/file")
    heading, *lines = traced.stdout.splitlines()
    assert heading.split() == ["time", "comm", "pid", "tid", "duration", "name(args)", "=", "result"]
    failed = 'openat(AT_FDCWD</work>, "/nonsense/file", O_RDONLY) = -1 ENOENT (No such file or directory)'
    assert any(re.sub("AT_FDCWD<.*?>", "AT_FDCWD</work>", line).endswith(failed) for line in lines)


def test_a_filter_has_what_it_reads_made() -> None:
    """A filter on `path` enables the recording of paths."""
    traced = scope("trace", "syscalls", "--json", "--where", "path = '/etc/passwd'", "--", "cat", "/etc/passwd")
    rows = [json.loads(line) for line in traced.stdout.splitlines()]
    assert {"openat", "read", "close"} <= {row["name"] for row in rows}
    assert {row["path"] for row in rows} == {"/etc/passwd"}


def test_ctrl_c_waits_for_the_command(tmp_path: Path) -> None:
    """After Ctrl-C, `scope trace` waits for the end of the command and exits with its status."""
    program = "trap 'sleep 0.5; exit 7' INT; echo ready; while :; do sleep 0.1; done"
    said = tmp_path / "said"
    with said.open("w") as output:
        running = subprocess.Popen(
            [*SCOPE, "trace", "process", "--", "bash", "-c", program],
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    end = time.monotonic() + 60
    while "ready" not in said.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=240) == 7


def test_a_command_that_still_runs_is_told() -> None:
    """A trace that ends before its command says that the command still runs."""
    traced = scope("trace", "process", "--duration", "0.3", "--", "sleep", "2")
    assert re.search(r"the command still runs, as process \d+; its status is not known", traced.stderr)


@pytest.mark.parametrize(
    ("redirected", "status", "said"),
    [
        (">/dev/full", 1, "cannot write the tables: No space left on device"),
        (">&-", 0, "rows in"),
        ("| cat", 0, "rows in"),
    ],
)
def test_odd_outputs_are_no_traceback(redirected: str, status: int, said: str) -> None:
    """A full disk is an error; a closed output and an ASCII-only output are not. None causes a traceback."""
    command = f"{sys.executable} -m scope_cli.main trace syscalls -- true {redirected}; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, env=environment)
    assert (ran.returncode, "Traceback" in ran.stderr) == (status, False)
    assert said in ran.stderr
