"""The `dns` probe: queries to a server of the tests' own, with known names, types and answers."""

import json
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import Record, Recording

RESOLVING = Path(__file__).parent / "workloads" / "resolving.py"
ALONE = [
    *("unshare", "--net", "--mount", "sh", "-c"),
    'ip link set lo up && ip address add 192.0.2.7/32 dev lo && mount --bind "$0" /etc/resolv.conf && "$@"',
]


def resolving(tmp_path: Path, how: str, count: int) -> list[str]:
    """The command that runs resolving.py in a network of its own, of whose servers /etc/resolv.conf tells."""
    conf = tmp_path / "resolv.conf"
    conf.write_text("nameserver 127.0.0.1\nsearch first.test second.test\noptions attempts:1\n")
    return [*ALONE, str(conf), sys.executable, "-S", "-E", str(RESOLVING), how, str(count)]


def ran(
    record: Record, tmp_path: Path, how: str, count: int, **options: Any
) -> tuple[Recording, list[dict[str, Any]], int]:
    """The recording of resolving.py, its rows, and the client's pid."""
    script = f'exec "$@" > {tmp_path}/output'
    recording = record("dns", ["sh", "-c", script, "sh", *resolving(tmp_path, how, count)], **options)
    assert recording.status == 0
    return recording, recording.rows("dns"), json.loads((tmp_path / "output").read_text())["client"]


def test_every_query_has_its_answer(record: Record, tmp_path: Path) -> None:
    """Each of 101 queries is a row of the client, with name, type, server, the answer's records and its address."""
    recording, rows, client = ran(record, tmp_path, "many", 101)
    kinds = ("a", "aaaa", "txt")
    assert [(row["name"], row["qtype"]) for row in rows] == [
        (f"name{n}.example.test", kinds[n % 3]) for n in range(101)
    ]
    assert [row["server"] for row in rows] == [("127.0.0.1", "::1")[n % 2] for n in range(101)]
    answers = {"a": ("192.0.2.7", 2), "aaaa": ("2001:db8::7", 2), "txt": (None, 0)}
    assert [(row["answer"], row["answers"]) for row in rows] == [answers[kinds[n % 3]] for n in range(101)]
    assert Counter((row["pid"], row["code"], row["protocol"], row["attempts"], row["failed"]) for row in rows) == {
        (client, "noerror", "udp", 1, 0): 101
    }
    assert all(row["duration_ns"] >= 2_000_000 for row in rows), "the server waits 2 ms"
    account = recording.accounts["dns"]
    assert (account.emitted, account.lost, account.incomplete) == (101, {}, 0)


def test_errors_have_their_code(record: Record, tmp_path: Path) -> None:
    """Each code that a server answers with has its name."""
    _, rows, _ = ran(record, tmp_path, "codes", 7)
    assert Counter((row["name"].partition(".")[0], row["code"], row["failed"]) for row in rows) == {
        ("nx", "nxdomain", 1): 7,
        ("fails", "servfail", 1): 7,
        ("no", "refused", 1): 7,
    }


def test_queries_over_tcp(record: Record, tmp_path: Path) -> None:
    """Queries over TCP have the same rows."""
    _, rows, client = ran(record, tmp_path, "tcp", 13)
    assert [(row["name"], row["protocol"], row["answer"], row["pid"]) for row in rows] == [
        (f"stream{n}.example.test", "tcp", "192.0.2.7", client) for n in range(13)
    ]


def test_a_timeout_is_a_value_of_its_own(record: Record, tmp_path: Path) -> None:
    """Queries that nobody answers are timeouts, once each although they were sent three times; the last, unanswered."""
    _, rows, client = ran(record, tmp_path, "lost", 5, timeout_ms=1000)
    assert [(row["name"], row["code"], row["attempts"], row["pid"]) for row in rows] == [
        *((f"lost.name{n}.test", "timeout", 3, client) for n in range(5)),
        ("lost.late.test", "unanswered", 1, client),
    ]


@pytest.mark.parametrize("count", [11])
def test_the_librarys_queries(record: Record, tmp_path: Path, count: int) -> None:
    """The C library's resolver is recorded, like any other program."""
    _, rows, client = ran(record, tmp_path, "resolver", count)
    assert {(row["name"], row["qtype"], row["answer"], row["pid"]) for row in rows} == {
        (f"library{n}.example.test", "a", "192.0.2.7", client) for n in range(count)
    }


THREADS, COUNT = 3, 17


@pytest.fixture(params=["glibc", "musl, static"])
def lookups(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """workloads/lookups.c, compiled for a C library."""
    program = tmp_path / "lookups"
    if request.param == "glibc":
        compiler = ["gcc", "-pthread"]
    elif platform.machine() == "x86_64":
        compiler = ["musl-gcc", "-static"]
    else:
        pytest.skip("no musl-gcc on this architecture is tried")
    subprocess.run([*compiler, "-O1", "-o", program, RESOLVING.parent / "lookups.c"], check=True)
    return str(program)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The pid of a process in whose network the servers are."""
    command = resolving(tmp_path, "serve_others", 0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate()


def test_lookups_and_their_queries(record: Record, tmp_path: Path, lookups: str, served: str) -> None:
    """Each call of getaddrinfo() is a row with its result, and queries tell their call, in threads that run at once.

    Nothing is known in the first search domain, so each name takes two queries; localhost takes none. Of two calls with
    the same name, each has its own query.
    """
    file = tmp_path / "told"
    names = ("localhost", "nx.example.test.", "nx.example.test.")
    recording = record("dns", [lookups, served, str(file), str(THREADS), str(COUNT), *names])
    told = Counter(tuple(line.split()) for line in file.read_text().splitlines())
    rows, queries = recording.rows("dns_lookup"), recording.rows("dns")
    results = {"ok": "0", "noname": "-2", "nodata": "-5"}
    assert len(rows) == THREADS * COUNT + 3
    assert told == Counter((str(row["tid"]), row["name"], results[row["result"]], row["answer"] or "-") for row in rows)
    assert {(row["family"], row["failed"] == (row["result"] != "ok")) for row in rows} == {("ipv4", True)}
    assert {(row["result"], row["answer"]) for row in rows if row["name"] not in names} == {("ok", "192.0.2.7")}
    assert [row["queries"] for row in rows if row["name"] in names] == [0, 1, 1]
    expected = {
        (row["tid"], row["name"], row["name"] + domain)
        for row in rows
        if row["name"] not in names
        for domain in (".first.test", ".second.test")
    }
    searched = Counter((row["tid"], row["looked_up"], row["name"]) for row in queries if row["looked_up"] not in names)
    assert searched == dict.fromkeys(expected, 1)
    assert {row["queries"] for row in rows if row["name"] not in names} == {2}
    numbered = {(row["tid"], row["lookup"]): row["name"] for row in rows}
    assert len(numbered) == len(rows)
    assert all(numbered[row["tid"], row["lookup"]] == row["looked_up"] for row in queries)
    asked = [(row["name"], row["lookup"]) for row in queries if row["looked_up"] in names]
    assert asked == [("nx.example.test", row["lookup"]) for row in rows if row["name"] == names[1]]
    assert recording.accounts["dns_lookup"].lost == {}


def test_a_lookup_that_never_returns_is_counted(record: Record, tmp_path: Path, lookups: str, served: str) -> None:
    """A program that is killed while it waits for an answer: the lookup is lost, and its query tells what it was."""
    command = [lookups, served, str(tmp_path / "told"), "0", "0", "lost.example.test."]
    recording = record("dns", command)
    assert recording.rows("dns_lookup") == []
    assert recording.accounts["dns_lookup"].lost == {"left": 1}
    assert [(row["name"], row["looked_up"]) for row in recording.rows("dns")] == [
        ("lost.example.test", "lost.example.test.")
    ]


def test_queries_without_lookups(record: Record, tmp_path: Path) -> None:
    """Without lookups, nothing is attached to the C library; a program's own queries name no lookup."""
    recording, rows, _ = ran(record, tmp_path, "resolver", 3, lookups=False)
    assert [(row["looked_up"], row["lookup"]) for row in rows] == [(None, None)] * 3
    assert recording.places == []
    _, rows, _ = ran(record, tmp_path, "tcp", 3)
    assert [(row["looked_up"], row["lookup"]) for row in rows] == [(None, None)] * 3
