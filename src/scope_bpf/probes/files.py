"""Files: every open, stat, rename and so on with its path, and reads and writes per file."""

from collections.abc import Mapping
from typing import Any

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import FILE_PATH, Names, Stream, Summary
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.syscalls import NUMBERS_32, by_number
from scope_catalogue.codes import Codes
from scope_catalogue.guide import Example, Guide
from scope_catalogue.shown import Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Failed, Quantiles, Sum, Table

_CALLS = {
    "open": "CALL_OPEN",  # arm64 has no open and no creat
    "creat": "CALL_CREAT",
    "openat": "CALL_OPENAT",
    "openat2": "CALL_OPENAT2",
    **dict.fromkeys(("read", "readv", "pread64", "preadv", "preadv2"), "CALL_READ"),
    **dict.fromkeys(("write", "writev", "pwrite64", "pwritev", "pwritev2"), "CALL_WRITE"),
    **dict.fromkeys(("copy_file_range", "splice"), "CALL_COPY"),
    **dict.fromkeys(("sendfile", "sendfile64"), "CALL_SENDFILE"),
    "io_submit": "CALL_AIO",
}

# call -> (what it does, how its arguments name files)
_OPERATIONS = {
    **dict.fromkeys(("stat", "lstat", "stat64", "lstat64", "oldstat", "oldlstat"), ("FILE_STAT", "CALL_NAME")),
    **dict.fromkeys(("newfstatat", "fstatat64", "statx"), ("FILE_STAT", "CALL_NAME_AT")),
    **dict.fromkeys(("fstat", "fstat64", "oldfstat"), ("FILE_STAT", "CALL_FD")),
    "unlink": ("FILE_UNLINK", "CALL_NAME"),
    "unlinkat": ("FILE_UNLINK", "CALL_NAME_AT"),  # with AT_REMOVEDIR: FILE_RMDIR
    "rmdir": ("FILE_RMDIR", "CALL_NAME"),
    "rename": ("FILE_RENAME", "CALL_NAMES"),
    **dict.fromkeys(("renameat", "renameat2"), ("FILE_RENAME", "CALL_NAMES_AT")),
    "mkdir": ("FILE_MKDIR", "CALL_NAME"),
    "mkdirat": ("FILE_MKDIR", "CALL_NAME_AT"),
    "link": ("FILE_LINK", "CALL_NAMES"),
    "linkat": ("FILE_LINK", "CALL_NAMES_AT"),
    "symlink": ("FILE_SYMLINK", "CALL_SYMLINK"),
    "symlinkat": ("FILE_SYMLINK", "CALL_SYMLINKAT"),
    **dict.fromkeys(("truncate", "truncate64"), ("FILE_TRUNCATE", "CALL_NAME")),
    **dict.fromkeys(("ftruncate", "ftruncate64"), ("FILE_TRUNCATE", "CALL_FD")),
    "fsync": ("FILE_FSYNC", "CALL_FD"),
    "fdatasync": ("FILE_FDATASYNC", "CALL_FD"),
    **dict.fromkeys(("sync_file_range", "arm_sync_file_range"), ("FILE_SYNC_FILE_RANGE", "CALL_FD")),
}

_CALL_ENDS, _OPERATION_ENDS = ("file_exit",), ("file_operation_end", "file_operation_overflow")
_AIO = {"aio": "operations of Linux AIO"}  # the kernel does not tell their end
_SUBMISSIONS = {  # programs by tracepoint: its name since 6.5, and before
    "io_uring_submit_req": "file_operation_begin",
    "io_uring_submit_sqe": "file_operation_begin_sqe",
}


def _constants(_: Mapping[str, Any]) -> Mapping[str, Any]:
    kinds = enum_values(PROBE.btf, "file_call")
    calls = {name: kinds[kind] for name, kind in _CALLS.items()}
    calls |= {name: kinds[kind] for name, (_, kind) in _OPERATIONS.items()}
    values = enum_values(PROBE.btf, "file_op_kind")
    operations = {name: values[operation] for name, (operation, _) in _OPERATIONS.items()}
    return {
        "file_calls": by_number(calls),
        "file_calls_32": by_number(calls, NUMBERS_32),
        "file_ops": by_number(operations),
        "file_ops_32": by_number(operations, NUMBERS_32),
    }


GUIDE = Guide(
    examples=(
        Example(
            "scope trace files -- ls /",
            "every open, stat and so on, with the absolute path; failed ones, too",
        ),
        Example(
            "scope trace files --mode summary -- cat /etc/passwd /etc/group",
            "reads and writes by file: calls, bytes, time",
        ),
        Example(
            "scope trace files --where \"path ~ '/etc/*'\" --lines -- ls /",
            "opens below `/etc` only",
        ),
    ),
    notes=(
        "In mode `events` a row of `open` is an open, and a row of `file_op` a stat, unlink, rmdir, rename, mkdir, "
        "link, symlink, truncate, fsync, fdatasync or sync_file_range; in mode `summary` a row is a process and a "
        "file, with its reads and writes.",
        "The names of variants are in one `operation`: stat is also lstat, fstat, newfstatat and statx; truncate is "
        "also ftruncate; rmdir is also unlinkat with AT_REMOVEDIR.",
        "copy_file_range, sendfile and splice, which `cp` and web servers use, count as a read of one file and as a "
        "write of the other, each with the call's duration and, if it fails, error.",
        "An open by io_uring with a fixed file slot has that slot, or 0, in place of a descriptor; io_uring adds "
        "`O_LARGEFILE` to the flags.",
    ),
    limits=(
        "Operations of io_uring are recorded from Linux 6.0 on, with the submitting process, if they have a completion "
        "of their own. Notes of the trace or task tell how many had none: those with `IOSQE_CQE_SKIP_SUCCESS`, reads "
        "with several completions, and any operation whose completion found the ring full.",
        "On older kernels, notes tell how many submissions to io_uring there were; those that the kernel polls for "
        "(SQPOLL) are not counted. What programs submit to Linux AIO (`io_submit`) is not recorded on any kernel; "
        "notes tell how many operations there were.",
        "Of io_uring, `file_op` has statx, unlinkat, mkdirat, renameat, linkat, symlinkat, fsync, sync_file_range and "
        "ftruncate; not fallocate and extended attributes. A name longer than 1,024 bytes, or two longer than 2,048, "
        "are absent, and the row is counted as incomplete.",
        "The directories of a path have the names that they have when the call ends, also if a rename changed them.",
        "Reads and writes through mappings (`mmap`) are not calls: `scope trace why` shows their page faults.",
        "Files without a path, such as pipes and sockets, have counts but no path.",
    ),
)

PROBE = Probe(
    name="files",
    meaning="opens, stats, renames, fsyncs, ... with absolute paths, failed ones too; reads and writes per file",
    streams=(
        Stream(
            "open",
            "one row per finished call of open, openat, openat2 or creat, timed at entry, or operation of io_uring",
            columns={
                "path": Column(
                    "absolute path, with directory descriptor, working directory and root applied; '..' and links are "
                    "not resolved; absent if the name was unreadable or the descriptor is not a directory",
                    cut_if="path_truncated",
                ),
                "flags": Column("O_* bits", hex=True),
                "mode": Column("permission bits for a new file", hex=True),
                "ret": Column("file descriptor, or -errno", codes=Codes.ERROR),
                "duration_ns": Column("from entry to exit", "ns"),
                "path_truncated": Column("1 if the beginning of the path was cut"),
                "io_uring": Column("1 if io_uring opened the file: from submission to completion"),
            },
            hidden=("path_read",),
            null_unless={"path": "path_read"},
            failed="ret < 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "path"),
                        (Count(), Failed(), Sum("duration_ns"), Quantiles("duration_ns")),
                        title="opens by program and file",
                    ),
                ),
                line=("duration_ns", "ret", "path"),
                timeline=Timeline(slices=(Slices(named=("path",), below="open", by_thread="io_uring = 0"),)),
            ),
            rollup=Rollup(measured="duration_ns"),
        ),
        Stream(
            "file_op",
            "one row per finished call, or operation of io_uring, that looks up, names, removes, cuts or syncs a file, "
            "timed at entry",
            columns={
                "operation": Column(
                    "stat, unlink, rmdir, rename, mkdir, link, symlink, truncate, fsync, fdatasync or sync_file_range"
                ),
                "path": Column(
                    "absolute path as of an open, or that of the descriptor's file; of symlink, the link's; absent if "
                    "the name was unreadable, or the descriptor has no file, or one without a path",
                    cut_if="path_truncated",
                ),
                "new_path": Column(
                    "of rename and link: the new name as an absolute path; else absent", cut_if="new_path_truncated"
                ),
                "target": Column("of symlink: what the link leads to, as the program gave it; else absent"),
                "ret": Column("0, or -errno", codes=Codes.ERROR),
                "duration_ns": Column("from entry to exit", "ns"),
                "path_truncated": Column("1 if the beginning of the path was cut"),
                "new_path_truncated": Column("1 if the beginning of the new path was cut"),
                "io_uring": Column("1 if io_uring did it: from submission to completion"),
            },
            hidden=("path_read", "new_path_read", "target_read"),
            null_unless={"path": "path_read", "new_path": "new_path_read", "target": "target_read"},
            failed="ret < 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "operation", "path"),
                        (Count(), Failed(), Sum("duration_ns"), Quantiles("duration_ns")),
                        title="other calls by program, operation and file",
                    ),
                ),
                line=("operation", "duration_ns", "ret", "path", "new_path", "target"),
                timeline=Timeline(
                    slices=(Slices(named=("operation", "path"), below="file_op", by_thread="io_uring = 0"),)
                ),
            ),
            rollup=Rollup(measured="duration_ns"),
        ),
        Stream(
            "file_name",
            "the path of a file, once per interval in which a summary counts the file",
            columns=FILE_PATH,
            internal=True,
        ),
        Stream(
            "file_summary",
            "reads and writes per process and file",
            columns={
                "inode": Column("inode number of the file", identity=True),
                "device": Column("device number of the file system: major << 20 | minor", identity=True),
                "file_type": Column("S_IFMT bits: regular file, directory, socket, pipe, ...", hex=True),
                "reads": Column("number of read calls"),
                "read_bytes": Column("bytes read", "bytes"),
                "read_errors": Column("failed read calls"),
                "read_ns": Column("sum of the read calls' durations", "ns"),
                "writes": Column("number of write calls"),
                "write_bytes": Column("bytes written", "bytes"),
                "write_errors": Column("failed write calls"),
                "write_ns": Column("sum of the write calls' durations", "ns"),
                "read_latency": Column("histogram of read durations, in powers of two", "ns"),
                "write_latency": Column("histogram of write durations, in powers of two", "ns"),
            },
            summary=Summary(),
            failed="read_errors > 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "path"),
                        (
                            Sum("reads"),
                            Sum("read_bytes"),
                            Sum("read_ns"),
                            Sum("writes"),
                            Sum("write_bytes"),
                            Sum("write_ns"),
                            Quantiles("read_latency"),
                            Quantiles("write_latency"),
                        ),
                        ranked_by=("read_ns", "write_ns"),
                    ),
                )
            ),
            rollup=Rollup(count="reads", measured="read_ns", histogram="read_latency"),
            names=Names(
                "file_name",
                ("device", "inode"),
                "path",
                Column(
                    "absolute path, with ... in place of a beginning that was cut; absent for files without a path, "
                    "such as pipes"
                ),
            ),
        ),
    ),
    ring_bytes=4 << 20,
    alternatives=(
        *(
            Alternative(
                f"tp_btf: sys_enter, sys_exit, io_uring_complete, {tracepoint}",
                (*_CALL_ENDS, *_OPERATION_ENDS, "file_enter", "file_operation_refused", program),
                unseen={"uring_ends": "io_uring operations without a completion of their own", **_AIO},
            )
            for tracepoint, program in _SUBMISSIONS.items()
        ),
        Alternative(
            "tp_btf: sys_enter, sys_exit",
            (*_CALL_ENDS, "file_submissions", "file_enter"),
            unseen={"uring": "io_uring submissions", **_AIO},
        ),
    ),
    constants=_constants,
    guide=GUIDE,
)
