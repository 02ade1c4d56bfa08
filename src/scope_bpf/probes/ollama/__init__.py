"""Servers of models, such as Ollama and llama-server: their requests over HTTP, and their log."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Derived, Made, Rows, Settled, Stream
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.ollama.calls import FUNCTIONS, call_table, places
from scope_bpf.probes.ollama.guide import GUIDE
from scope_bpf.probes.ollama.paths import PATHS, constants
from scope_catalogue.options import Option
from scope_catalogue.shown import Rollup, Shown, Slices, Span, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, LatestRows, Quantiles, SlowestRows, Sum, Table

_CONNECTION = Column("number of the socket's inode, which identifies the connection", identity=True)
_REQUEST = Column("number of the request since recording began, from 1", identity=True)


def _derive_request(rows: Rows) -> dict[str, pa.Array]:
    gaps = rows["writes"].astype(np.int64) - 1
    known = (rows["has_body"] != 0) & (gaps > 0)
    return {"mean_gap_ns": pa.array(rows["streaming_ns"] // np.where(known, gaps, 1).astype(np.uint64), mask=~known)}


def _derive_log(rows: Rows) -> dict[str, pa.Array]:
    return {"function": pa.DictionaryArray.from_arrays(pa.array(rows["source"].astype(np.int32)), pa.array(FUNCTIONS))}


def _constants(options: Mapping[str, Any]) -> Mapping[str, Any]:
    levels = enum_values(PROBE.btf, "ollama_level")
    return {
        "ollama_calls": call_table(PROBE.btf),
        "least_level": levels[f"OLLAMA_LEVEL_{options['level'].upper()}"],
        **constants(options),
    }


_LEVEL = Option(
    "level",
    "choice",
    "info",
    "the least level of a piece of the log that is recorded; pieces without a known level always are",
    choices=("debug", "info", "warn", "error"),
)


# opentelemetry.io/docs/specs/semconv/http/http-spans: of a server
_SPAN = Span(
    kind="server",
    named=("method",),
    attributes={
        "method": "http.request.method",
        "path": "url.path",
        "status": "http.response.status_code",
        "request_bytes": "http.request.size",
        "response_bytes": "http.response.size",
        "body_bytes": "http.response.body.size",
        "peer": "client.address",
        "peer_port": "client.port",
        "port": "server.port",
        "first_byte_ns": "scope.first_byte_ns",
        "ended": "scope.ended",
    },
    given={"url.scheme": "http"},
)

_MEAN_GAP = Derived(Column("mean time between two such writes", "ns"), pa.uint64())

PROBE = Probe(
    name="ollama",
    meaning="servers of models (Ollama, llama-server): requests over HTTP, loaded models, log lines",
    streams=(
        Stream(
            "ollama_request",
            "one row per request over HTTP that a process answers, timed when its first byte was read",
            columns={
                "duration_ns": Column(
                    "until the last byte of the response was written; without a response, until it ended", "ns"
                ),
                "method": Column("GET, POST, ..."),
                "path": Column("without the query"),
                "status": Column("of the response; absent if there is none"),
                "first_byte_ns": Column("until the first byte of the response was written; absent without one", "ns"),
                "first_body_ns": Column("until the first write with bytes of the body; absent without a body", "ns"),
                "streaming_ns": Column("from the first write with bytes of the body to the last", "ns"),
                "longest_gap_ns": Column(
                    "longest time between two writes with bytes of the body; absent with one", "ns"
                ),
                "request_bytes": Column("read until the response ended, head included", "bytes"),
                "response_bytes": Column("written, head included", "bytes"),
                "body_bytes": Column("written of the body, without what separates chunks; absent without one", "bytes"),
                "writes": Column("calls that wrote bytes of the body: of a response that is streamed, its pieces"),
                "chunks": Column("parts of the body; absent if it is not sent as Transfer-Encoding: chunked"),
                "ended": Column(
                    "complete; peer_closed: the client had closed the connection, or it broke; closed: the server did; "
                    "exited: the process ended; upgraded to another protocol; not: it goes on after the trace"
                ),
                "peer": Column("address of the client; absent for sockets of the Unix domain"),
                "peer_port": Column("port of the client"),
                "port": Column("port of the server"),
                "connection": _CONNECTION,
                "request": _REQUEST,
                "path_truncated": Column("1 if the end of the path was cut"),
            },
            made=Made(
                derived={"mean_gap_ns": _MEAN_GAP},
                derive=_derive_request,
            ),
            hidden=("has_response", "has_status", "has_body", "has_gaps", "has_chunks", "has_peer"),
            null_unless={
                "status": "has_status",
                "first_byte_ns": "has_response",
                **dict.fromkeys(("first_body_ns", "streaming_ns", "body_bytes"), "has_body"),
                "longest_gap_ns": "has_gaps",
                "chunks": "has_chunks",
                **dict.fromkeys(("peer_port", "port"), "has_peer"),
            },
            settled=Settled("ollama_settle"),
            failed="status >= 500",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "method", "path", "status"),
                        (
                            Count(),
                            Sum("response_bytes"),
                            Sum("duration_ns"),
                            Quantiles("first_body_ns"),
                            Quantiles("duration_ns"),
                        ),
                        title="requests by path and status",
                    ),
                    LatestRows(
                        (
                            *("comm", "pid", "method", "path", "status", "ended", "response_bytes", "writes"),
                            *("first_body_ns", "longest_gap_ns", "duration_ns"),
                        ),
                        title="latest requests",
                    ),
                    # What is left of the duration is short: the last chunk of a response, without bytes of the body.
                    SlowestRows(
                        ("comm", "pid", "method", "path", "status", "duration_ns"),
                        duration="duration_ns",
                        parts=("first_body_ns", "streaming_ns"),
                        causes={"status >= 500": "an error of the server"},
                        title="the slowest requests, and what took longer than in the median one",
                    ),
                ),
                line=("duration_ns", "status", "ended", "writes", "first_body_ns", "longest_gap_ns", "{method} {path}"),
                timeline=Timeline(slices=(Slices(named=("method", "path"), on=("connection",)),)),
                span=_SPAN,
            ),
            rollup=Rollup(by=("comm", "path"), measured="duration_ns"),
        ),
        Stream(
            "ollama_chunk",
            "one row per write with bytes of a response's body, timed when it ended",
            columns={
                "duration_ns": Column("since the write before; of the first one, since the request began", "ns"),
                "bytes": Column("of the body", "bytes"),
                "number": Column("number of the write in its response, from 0"),
                "connection": _CONNECTION,
                "request": _REQUEST,
            },
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid"),
                        (Count(), Sum("bytes"), Sum("duration_ns"), Quantiles("duration_ns")),
                        where="number > 0",
                        title="gaps between the pieces of responses",
                    ),
                ),
                line=("tid", "duration_ns", "request", "number", "bytes"),
                timeline=Timeline(slices=(Slices(text="write", lasting="", on=("connection",)),)),
            ),
            rollup=Rollup(measured="duration_ns"),
        ),
        Stream(
            "ollama_model",
            "one row per model file (GGUF) that a process loads, timed when it was first read or mapped",
            columns={
                "path": Column("absolute path; absent if it is too long", cut_if="path_truncated"),
                "duration_ns": Column("until the file was last read, mapped or closed", "ns"),
                "file_bytes": Column("size of the file", "bytes"),
                "mapped_bytes": Column("size of the mappings; their pages may be read from disk later", "bytes"),
                "map_ns": Column("sum of the durations of the calls that mapped the file, which may read it", "ns"),
                "read_bytes": Column("bytes read, since the first ones were", "bytes"),
                "read_ns": Column("sum of the durations of the calls that read the file", "ns"),
                "maps": Column("calls that mapped the file"),
                "reads": Column("calls that read the file"),
                "inode": Column("inode number of the file", identity=True),
                "device": Column("device number of the file system: major << 20 | minor", identity=True),
                "ended": Column(
                    "idle: nothing has happened for 2 s, or 30 s if the file is still open; exited: the process ended; "
                    "not: it may go on after the trace. A load that goes on later has another row"
                ),
                "path_truncated": Column("1 if the beginning of the path was cut"),
            },
            hidden=("has_path",),
            null_unless={"path": "has_path"},
            settled=Settled("ollama_settle_loads"),
            shown=Shown(
                tables=(
                    LatestRows(
                        ("comm", "pid", "path", "file_bytes", "mapped_bytes", "read_bytes", "duration_ns"),
                        title="loaded models",
                    ),
                ),
                line=("duration_ns", "file_bytes", "mapped_bytes", "read_bytes", "path"),
                timeline=Timeline(slices=(Slices(named=("path",), below="model"),)),
            ),
            rollup=Rollup(by=("comm",), measured="duration_ns"),
        ),
        Stream(
            "ollama_log",
            "one row per piece of the log of llama.cpp or Ollama: a line, or a part of one",
            columns={
                "level": Column(
                    "none, debug, info, warn, error or cont (it continues the piece before); absent if unknown: "
                    "llama_log_callback_default and ggml_log_callback_default are older than today's order of levels"
                ),
                "level_number": Column("the level as the program gave it, enum ggml_log_level"),
                "text": Column("without the newline at its end; absent if it was unreadable"),
                "text_truncated": Column("1 if the end of the text was cut"),
                "ends_line": Column("1 if the text ended with a newline"),
            },
            made=Made(
                derived={
                    "function": Derived(
                        Column("the function that got the text"), pa.dictionary(pa.int32(), pa.string())
                    )
                },
                derive=_derive_log,
            ),
            hidden=("source", "has_level", "has_text"),
            null_unless={"level": "has_level", "text": "has_text"},
            shown=Shown(
                tables=(
                    Table(("comm", "pid", "function", "level"), title="log by level"),
                    LatestRows(("comm", "pid", "level", "text"), title="latest log"),
                ),
                line=("tid", "level", "text"),
                timeline=Timeline(slices=(Slices(named=("level", "text"), lasting="", below="log"),)),
            ),
            rollup=Rollup(by=("comm",)),
        ),
    ),
    alternatives=(
        Alternative(
            "tp_btf: sys_enter, sys_exit, sched_process_exit; uprobe_multi: log functions",
            ("ollama_end", "ollama_exit", "ollama_enter"),
            uprobe_multi=True,
        ),
        Alternative(
            "tp_btf: sys_enter, sys_exit, sched_process_exit; uprobe: log functions",
            ("ollama_end", "ollama_exit", "ollama_enter"),
        ),
    ),
    extra_options=(PATHS, _LEVEL),
    constants=_constants,
    places=places,
    kept_by_process=("ollama_connections", "ollama_loads", "ollama_processes"),
    guide=GUIDE,
)
