"""The `dns` probe: queries to a server of the tests' own, with known names, types and answers."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import Record, Recording

RESOLVING = Path(__file__).parent / "workloads" / "resolving.py"
ALONE = ["unshare", "--net", "--mount", "sh", "-c", 'ip link set lo up && mount --bind "$0" /etc/resolv.conf && "$@"']


def ran(
    record: Record, tmp_path: Path, how: str, count: int, **options: Any
) -> tuple[Recording, list[dict[str, Any]], int]:
    """The recording of resolving.py, its rows, and the client's pid."""
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions attempts:1\n")
    python = [sys.executable, "-S", "-E", str(RESOLVING), how, str(count)]
    script = f'exec "$@" > {tmp_path}/output'
    recording = record("dns", ["sh", "-c", script, "sh", *ALONE, str(tmp_path / "resolv.conf"), *python], **options)
    assert recording.status == 0
    return recording, recording.rows("dns"), json.loads((tmp_path / "output").read_text())["client"]


def test_every_query_has_its_answer(record: Record, tmp_path: Path) -> None:
    """Each of 101 queries is a row of the client, with name, type, server, the answer's records and its address."""
    recording, rows, client = ran(record, tmp_path, "many", 101)
    kinds = ("a", "aaaa", "txt")
    assert [(row["name"], row["type"]) for row in rows] == [(f"name{n}.example.test", kinds[n % 3]) for n in range(101)]
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
    assert {(row["name"], row["type"], row["answer"], row["pid"]) for row in rows} == {
        (f"library{n}.example.test", "a", "192.0.2.7", client) for n in range(count)
    }
