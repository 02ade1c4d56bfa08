"""Files: every open with its path, and reads and writes by file."""

from collections.abc import Mapping
from typing import Any

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.shown import Failed, Live, Rollup, Slices, Timeline
from scope_bpf.catalogue.stream import Column, Mode, Names, Stream
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.syscalls import by_number

_CALLS = {
    "open": "CALL_OPEN",  # arm64 has no open and no creat
    "creat": "CALL_CREAT",
    "openat": "CALL_OPENAT",
    "openat2": "CALL_OPENAT2",
    **dict.fromkeys(("read", "readv", "pread64", "preadv", "preadv2"), "CALL_READ"),
    **dict.fromkeys(("write", "writev", "pwrite64", "pwritev", "pwritev2"), "CALL_WRITE"),
}


def _constants(_: Mapping[str, Any]) -> Mapping[str, Any]:
    kinds = enum_values(PROBE.btf, "file_call")
    return {"file_calls": by_number({name: kinds[kind] for name, kind in _CALLS.items()})}


PROBE = Probe(
    name="files",
    meaning="opens with absolute paths, failed ones too; reads and writes by file",
    streams=(
        Stream(
            "open",
            "a call of the open family, when it ends; its time is the entry's",
            columns={
                "path": Column(
                    "absolute, through descriptor, working directory and root; '..' and links as they were given; "
                    "absent if the name was unreadable or the descriptor no directory's"
                ),
                "flags": Column("O_* bits", hex=True),
                "mode": Column("permission bits for a new file", hex=True),
                "ret": Column("the descriptor, or -errno"),
                "duration_ns": Column("from entry to exit", "ns"),
                "path_truncated": Column("1 if the path lacks its beginning"),
            },
            hidden=("path_read",),
            null_unless={"path": "path_read"},
            live=Live(by=("comm", "path"), totals=("duration_ns",), quantiles=("duration_ns",), failures="ret"),
            line=("duration_ns", "ret", "path"),
            timeline=Timeline(slices=(Slices(named=("path",), below="open"),)),
            rollup=Rollup(measured="duration_ns", failed="ret"),
        ),
        Stream(
            "file_name",
            "the path of a file, when a summary first meets it in an interval",
            columns={
                "path": Column("absolute"),
                "inode": Column("number of the file in its file system"),
                "device": Column("the file system: major << 20 | minor"),
                "path_truncated": Column("1 if the path lacks its beginning"),
            },
            internal=True,
        ),
        Stream(
            "file_summary",
            "reads and writes by process and file",
            columns={
                "inode": Column("number of the file in its file system"),
                "device": Column("the file system: major << 20 | minor"),
                "file_type": Column("S_IFMT bits: regular, directory, socket, pipe, ...", hex=True),
                "reads": Column("calls that read"),
                "read_bytes": Column("what they got", "bytes"),
                "read_errors": Column("those that failed"),
                "read_ns": Column("their durations, added up", "ns"),
                "writes": Column("calls that wrote"),
                "write_bytes": Column("what they put", "bytes"),
                "write_errors": Column("those that failed"),
                "write_ns": Column("their durations, added up", "ns"),
                "read_latency": Column("durations of reads by powers of two", "ns"),
                "write_latency": Column("durations of writes by powers of two", "ns"),
            },
            mode=Mode.SUMMARY,
            live=Live(
                by=("comm", "path"),
                totals=("reads", "read_bytes", "read_ns", "writes", "write_bytes", "write_ns"),
                ranked_by=("read_ns", "write_ns"),
                quantiles=("read_latency", "write_latency"),
            ),
            rollup=Rollup(
                count="reads",
                measured="read_ns",
                histogram="read_latency",
                failed="read_errors",
                failed_if=Failed.COUNTED,
            ),
            names=Names(
                "file_name",
                ("device", "inode"),
                "path",
                Column("absolute; absent for what is in no directory, such as pipes"),
            ),
        ),
    ),
    ring_bytes=4 << 20,
    alternatives=(Alternative("tp_btf: sys_enter, sys_exit", ("file_exit", "file_enter")),),
    constants=_constants,
)
