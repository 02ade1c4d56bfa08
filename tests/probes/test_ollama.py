"""`ollama`: requests over HTTP, byte by byte, as a client and a server in one process are told to make them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.llm.runs import going_on, stopped
from tests.probes.ollama_rows import requests, told
from tests.probes.recording import Record, Recording

TALK = Path(__file__).with_name("talk.py")
ASK = "POST /api/chat HTTP/1.1\r\nHost: here\r\nContent-Length: 11\r\n\r\nhello world"
GET = "GET /v1/models HTTP/1.1\r\n\r\n"
OK = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nanswers"
PART_OF_OK = OK[:-1]
STREAM = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = "0\r\n\r\n"

Step = tuple[str, str, str]


def client(what: str, how: str = "recv") -> Step:
    return "client", what, how


def server(what: str, how: str = "send") -> Step:
    return "server", what, how


def chunk(text: str) -> str:
    return f"{len(text):x}\r\n{text}\r\n"


def talked(record: Record, *steps: Step, **options: Any) -> Recording:
    """The recording of what client and server say to each other."""
    return record("ollama", [sys.executable, "-S", "-E", str(TALK), json.dumps(steps)], **options)


def test_a_request_and_its_response(record: Record) -> None:
    """One request is one row: what was asked, the status, the bytes of both, and who asked."""
    recorded = talked(record, client(ASK), server(OK), client("close", "do"))
    (row,) = requests(recorded)
    assert (row["method"], row["path"], row["status"], row["ended"]) == ("POST", "/api/chat", 200, "complete")
    assert (row["request_bytes"], row["response_bytes"], row["body_bytes"]) == (len(ASK), len(OK), 7)
    assert (row["writes"], row["chunks"], row["longest_gap_ns"], row["mean_gap_ns"]) == (1, None, None, None)
    assert row["peer"] == "127.0.0.1"
    assert (row["pid"], row["path_truncated"]) == (recorded.pid, 0)
    assert 0 < row["first_byte_ns"] == row["first_body_ns"] == row["duration_ns"]


@pytest.mark.parametrize("how", ["recv", "read", "readv", "recvmsg", "bytes"])
def test_every_call_that_reads(record: Record, how: str) -> None:
    """A request is read with any call, in any pieces, several in one connection."""
    recorded = talked(record, *[step for _ in range(3) for step in (client(ASK, how), server(OK))])
    assert told(requests(recorded), "path", "status", "request_bytes") == [("/api/chat", 200, len(ASK))] * 3
    assert len({row["connection"] for row in requests(recorded)}) == 1
    assert [row["request"] for row in requests(recorded)] == [1, 2, 3]


@pytest.mark.parametrize(("how", "writes"), [("send", 1), ("write", 1), ("writev", 1), ("sendmsg", 1), ("bytes", 7)])
def test_every_call_that_writes(record: Record, how: str, writes: int) -> None:
    """A response is written with any call, in any pieces; each call with bytes of the body counts."""
    recorded = talked(record, *[step for _ in range(3) for step in (client(ASK), server(OK, how))])
    names = ("status", "response_bytes", "body_bytes", "writes", "ended")
    assert told(requests(recorded), *names) == [(200, len(OK), 7, writes, "complete")] * 3
    assert recorded.count("ollama_chunk") == 3 * writes


def test_a_file_that_is_sent(record: Record) -> None:
    """sendfile() writes a body whose length is known."""
    head = "HTTP/1.1 200 OK\r\nContent-Length: 997\r\n\r\n"
    steps = (client(ASK), server(head), server("x" * 997, "sendfile"), client(GET), server(OK))
    rows = requests(talked(record, *steps))
    assert told(rows, "path", "body_bytes", "ended") == [("/api/chat", 997, "complete"), ("/v1/models", 7, "complete")]


@pytest.mark.parametrize("how", ["send", "writev", "bytes"])
def test_a_stream(record: Record, how: str) -> None:
    """A response in chunks ends with the empty one: its parts are counted, and its bytes without their sizes."""
    texts = [f'{{"token": {n}}}\n' * n for n in range(1, 12)]
    steps = [client(ASK), server(STREAM, how), *(server(chunk(text), how) for text in texts), server(END, how)]
    recorded = talked(record, *steps, client(GET), server(OK))
    first, second = requests(recorded)
    wire = len(STREAM) + sum(len(chunk(text)) for text in texts) + len(END)
    assert (first["chunks"], first["body_bytes"], first["response_bytes"]) == (11, sum(map(len, texts)), wire)
    assert first["writes"] == (11 if how != "bytes" else first["body_bytes"])
    assert second["path"] == "/v1/models"
    pieces = [row for row in recorded.rows("ollama_chunk") if row["request"] == first["request"]]
    assert [row["number"] for row in pieces] == list(range(first["writes"]))
    assert sum(row["bytes"] for row in pieces) == first["body_bytes"]
    assert pieces[0]["duration_ns"] == first["first_body_ns"]
    assert max(row["duration_ns"] for row in pieces[1:]) == first["longest_gap_ns"]
    assert sum(row["duration_ns"] for row in pieces[1:]) == first["streaming_ns"]
    assert first["mean_gap_ns"] == first["streaming_ns"] // (len(pieces) - 1)
    assert first["first_body_ns"] + first["streaming_ns"] <= first["duration_ns"]


def test_chunks_with_extensions_and_trailers(record: Record) -> None:
    """What RFC 9112 allows around chunks is no part of them."""
    whole = STREAM + "A;name=value\r\n0123456789\r\n" + "0b \r\n0123456789\n\r\n" + "0\r\nExpires: never\r\n\r\n"
    (first, second) = requests(talked(record, client(ASK), server(whole), client(GET), server(OK)))
    assert (first["chunks"], first["body_bytes"], first["response_bytes"]) == (2, 21, len(whole))
    assert (second["status"], second["ended"]) == (200, "complete")


def test_a_request_in_chunks(record: Record) -> None:
    """A request's body may come in chunks, too."""
    ask = "POST /api/create HTTP/1.1\r\nTRANSFER-encoding:chunked\r\n\r\n" + chunk("x" * 300) + chunk("y" * 5) + END
    rows = requests(talked(record, client(ask), server(OK), client(ASK), server(OK)))
    assert told(rows, "path", "request_bytes") == [("/api/create", len(ask)), ("/api/chat", len(ASK))]


def test_responses_without_a_body(record: Record) -> None:
    """A response to HEAD has no body, whatever its length; nor have 204 and 304."""
    head = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
    steps = [client(GET.replace("GET", "HEAD")), server(head)]
    steps += [client(GET), server("HTTP/1.1 204 No Content\r\n\r\n"), client(GET)]
    steps += [server("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n")]
    steps += [client(GET), server("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), client(GET), server(OK)]
    rows = requests(talked(record, *steps))
    assert told(rows, "method", "status", "body_bytes", "writes", "ended") == [
        ("HEAD", 200, None, 0, "complete"),
        *(("GET", status, None, 0, "complete") for status in (204, 304, 500)),
        ("GET", 200, 7, 1, "complete"),
    ]


def test_a_response_that_is_announced(record: Record) -> None:
    """100 Continue is not the response, but its bytes are written."""
    ask, body = ASK[:-11], ASK[-11:]
    early = "HTTP/1.1 100 Continue\r\n\r\n"
    (row,) = requests(talked(record, client(ask), server(early), client(body), server(OK)))
    assert (row["status"], row["request_bytes"], row["response_bytes"]) == (200, len(ASK), len(early) + len(OK))
    assert row["first_byte_ns"] == row["duration_ns"]


def test_pipelined_requests(record: Record) -> None:
    """Requests that come at once are answered in order, also if the responses come at once, and in the middle of one
    the next is read; each has its own bytes."""
    paths = [f"/v1/{'x' * n}" for n in range(5)]
    asks = [f"POST {path} HTTP/1.1\r\nContent-Length: {n}\r\n\r\n{'b' * n}" for n, path in enumerate(paths)]
    answers = [f"HTTP/1.1 20{n} OK\r\nContent-Length: {n + 1}\r\n\r\n{'c' * (n + 1)}" for n in range(4)] + [OK]
    steps = [client("".join(asks[:3])), server(answers[0] + answers[1][:-1]), client("".join(asks[3:]))]
    rows = requests(talked(record, *steps, server(answers[1][-1:] + "".join(answers[2:]))))
    assert told(rows, "path", "status", "request_bytes", "response_bytes") == [
        (path, status, len(ask), len(answer))
        for path, status, ask, answer in zip(paths, (200, 201, 202, 203, 200), asks, answers, strict=True)
    ]


def test_more_requests_at_once_than_are_kept(record: Record) -> None:
    """Of a connection, eight requests are kept at a time; others are counted as lost, and the next ones are right."""
    recorded = talked(record, client(GET * 11), server(OK * 11), client(ASK), server(OK))
    assert recorded.accounts["ollama_request"].lost == {"too_deep": 3}
    rows = recorded.rows("ollama_request")
    assert [row["path"] for row in rows] == ["/v1/models"] * 8 + ["/api/chat"]
    assert [row["ended"] for row in rows] == ["complete"] * 9


def test_only_wanted_paths(record: Record) -> None:
    """By default, paths of models' servers are recorded; queries are not kept. What is between does no harm."""
    asked = ("/", "/api/generate?key=secret", "/metrics", "/v1/chat/completions", "/api/version", "/completion", "/api")
    steps = [step for path in asked for step in (client(f"GET {path} HTTP/1.1\r\n\r\n"), server(OK))]
    kept = ["/api/generate", "/v1/chat/completions", "/completion"]
    assert [row["path"] for row in requests(talked(record, *steps))] == kept
    rows = requests(talked(record, *steps, paths=("/m", "/api/version")))
    assert [row["path"] for row in rows] == ["/metrics", "/api/version"]
    rows = requests(talked(record, *steps, paths="/"))
    assert [row["path"] for row in rows] == [path.partition("?")[0] for path in asked]


def test_a_long_path_and_a_huge_head(record: Record) -> None:
    """127 bytes of a path are kept, which the row tells; fields may be long and many."""
    path = "/v1/" + "p" * 200
    fields = "".join(f"X-Field-{n}: {'v' * 500}\r\n" for n in range(61)) + "X-Content-Length: 5\r\n"
    ask = f"POST {path}?{'q' * 3000} HTTP/1.1\r\n{fields}Content-Length: 3\r\n\r\nabc"
    answer = f"HTTP/1.1 200 OK\r\n{fields}Content-Length: 7\r\n\r\nanswers"
    first, second = requests(talked(record, client(ask), server(answer), client(GET), server(OK)))
    assert (first["path"], first["path_truncated"]) == (path[:127], 1)
    assert (first["request_bytes"], first["response_bytes"], first["body_bytes"]) == (len(ask), len(answer), 7)
    assert (second["path"], second["path_truncated"]) == ("/v1/models", 0)


GONE = [client("close", "do"), server("read", "do"), server("close", "do")]
BROKEN = [client("reset", "do"), server("read", "do"), server("close", "do")]
LEFT = [server("shutdown", "do"), client("close", "do"), server("read", "do")]
PART = server(STREAM + chunk("a"))
ENDLESS = server("HTTP/1.0 200 OK\r\n\r\nuntil the end")


@pytest.mark.parametrize(
    ("steps", "ended"),
    [
        ([ENDLESS, server("close", "do")], "complete"),
        ([ENDLESS, *LEFT, server("close", "do")], "complete"),
        ([PART, server("close", "do")], "closed"),
        ([PART, *LEFT, server("close", "do")], "closed"),
        ([server("close", "do")], "closed"),
        ([PART, *GONE], "peer_closed"),
        ([PART, *BROKEN], "peer_closed"),
        ([ENDLESS, *BROKEN], "peer_closed"),
        ([client("shutdown", "do"), server("read", "do"), server(OK), server("close", "do")], "complete"),
        ([client("close", "do"), server("read", "do"), server("answer", "do"), server("close", "do")], "peer_closed"),
        ([client("close", "do"), server("read", "do"), server("answer nothing", "do")], "peer_closed"),
        ([PART, server("exit", "do")], "exited"),
        ([server("HTTP/1.1 101 Switching Protocols\r\n\r\n"), client("GET /v1/ HTTP/1.1\r\n\r\n")], "upgraded"),
        ([server("copy", "do"), server(OK), server("close", "do")], "complete"),
        ([server("what is this?"), server("close", "do")], "closed"),
    ],
    ids=str,
)
def test_how_a_request_ends(record: Record, steps: list[Step], ended: str) -> None:
    """The row tells who ended the request. A client that has closed its side may still get its response,
    and one that has closed the connection gets none, though the server writes it whole; a copy of the descriptor that
    is closed ends nothing."""
    (row,) = requests(talked(record, client(ASK), *steps))
    assert row["ended"] == ended
    answered = any(what.startswith(("HTTP", "answer")) for who, what, _ in steps if who == "server")
    assert (row["status"] is not None) == answered


def test_a_request_that_goes_on(record: Record, tmp_path: Path) -> None:
    """A request that has not ended when the trace does is told as such."""
    steps = [server("stop", "do"), client(ASK), server(STREAM + chunk("abc")), server("stop", "do")]
    with stopped([sys.executable, str(TALK), json.dumps(steps)], tmp_path / "told") as pid:
        stops = f"sleep 0.5; until grep -q '^State:.T' /proc/{pid}/status; do sleep 0.05; done; exit;"
        recorded = going_on(record, pid, stops, probe="ollama")
    (row,) = requests(recorded)
    assert (row["ended"], row["status"], row["body_bytes"], row["chunks"]) == ("not", 200, 3, 1)


def test_what_is_no_request(record: Record) -> None:
    """Other protocols, and what only begins like HTTP, make no rows, and no harm: a request on a connection that has
    been something else is seen."""
    steps = [client("\x16\x03\x01\x02\x00\x01"), server("\x16\x03"), client("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")]
    steps += [client("GETS /v1/ HTTP/1.1\r\n\r\n"), client("POST"), client("ER /v1/x HTTP/1.1\r\n")]
    steps += [client("GET /v1/\x01 HTTP/1.1\r\n"), client("GET /v1/x FTP/1.1\r\n"), client("D"), client("ELIVER\n")]
    rows = requests(talked(record, *steps, client(ASK), server(OK)))
    assert told(rows, "path", "status") == [("/api/chat", 200)]


def test_a_peek_reads_nothing(record: Record) -> None:
    """Bytes that a server looks at first count once; an empty line before a request is no part of it; a read of no
    bytes is not the end of the connection."""
    steps = [client(ASK, "peek"), server(OK), client("\r\n" + ASK, "peek"), server(OK), client(ASK, "peek")]
    rows = requests(talked(record, *steps, server(PART_OF_OK), server("close", "do")))
    assert told(rows, "request_bytes", "ended") == [(len(ASK), ended) for ended in ("complete", "complete", "closed")]


def test_a_body_that_is_thrown_away(record: Record) -> None:
    """A server may throw a body away instead of reading it; it counts all the same."""
    steps = [client(ASK[:-11]), client(ASK[-11:], "discard"), server(OK), client(GET), server(OK)]
    rows = requests(talked(record, *steps))
    assert told(rows, "path", "request_bytes") == [("/api/chat", len(ASK)), ("/v1/models", len(GET))]


def test_connections_do_not_mix(record: Record) -> None:
    """Several connections of a process have requests at the same time."""
    steps = [client(ASK), client("new", "do"), client(GET), server(OK), server("exit", "do")]
    rows = requests(talked(record, *steps))
    assert told(rows, "path", "status", "ended") == [("/api/chat", None, "exited"), ("/v1/models", 200, "complete")]
    assert len({(row["connection"], row["peer_port"]) for row in rows}) == 2
