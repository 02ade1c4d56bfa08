"""Processes: execs, forks and exits."""

import resource

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream
from scope_bpf.probes.syscalls import NUMBERS
from scope_catalogue.codes import Codes
from scope_catalogue.guide import Example, Guide
from scope_catalogue.shown import Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import LatestRows, Table

_ALWAYS = ("exec_done", "fork_done", "exit_done")

GUIDE = Guide(
    examples=(
        Example(
            "scope trace process -- sh -c 'ls / | wc -l'",
            "every exec, fork and exit of a command",
        ),
        Example(
            "scope trace process --duration 1",
            "the same of the whole machine; on a terminal, as live tables",
        ),
        Example(
            "scope trace process --where \"ret < 0\" --lines -- sh -c 'env nosuchprogram; true'",
            "only failed execs",
        ),
    ),
    notes=(
        "`exec` has all arguments; of a script, the interpreter comes first. Failed execs have rows, too, with the "
        "error.",
        "`exit` has the CPU time, peak memory and storage I/O of the process. Of a command that `scope trace` "
        "started, the row shows the command alone, without the time before tracing began.",
    ),
    limits=(
        "Arguments beyond 12 KiB are cut, or beyond 512 arguments if the exec failed; `args_truncated` says so.",
        "Failed execs of 32-bit programs have no row.",
        "`user_ns` and `system_ns` lack the time since the last timer tick.",
    ),
)

PROBE = Probe(
    name="process",
    meaning="execs with all arguments, failed execs too; forks; exits with the resources used",
    streams=(
        Stream(
            "exec",
            "one row per exec; the row of a successful exec describes the process after the exec",
            columns={
                "filename": Column("path given to exec; absent if unreadable"),
                "args": Column(
                    "all arguments; for a script, the interpreter comes first; absent if unreadable",
                    cut_if="args_truncated",
                ),
                "cwd": Column("working directory", cut_if="cwd_truncated"),
                "ppid": Column("pid of the parent process", identity=True),
                "ret": Column("0, or -errno if the exec failed", codes=Codes.ERROR),
                "args_truncated": Column(
                    "1 if arguments were cut: longer than 12 KiB, or more than 512 for a failed exec"
                ),
                "cwd_truncated": Column("1 if the beginning of the working directory was cut"),
            },
            hidden=("filename_read", "args_read"),
            null_unless={"filename": "filename_read", "args": "args_read"},
            failed="ret < 0",
            shown=Shown(
                tables=(LatestRows(("pid", "ppid", "comm", "ret", "filename", "args")),),
                line=("ppid", "ret", "filename", "args"),
                timeline=Timeline(slices=(Slices(named=("filename",), lasting="", below="process"),)),
            ),
            rollup=Rollup(),
            describes={"exe": "filename", "cmdline": "args", "parent_pid": "ppid", "failed": "ret"},
        ),
        Stream(
            "fork",
            "one row per new process or thread; pid, comm and so on are the parent's",
            columns={
                "child_pid": Column("pid of the child; for a thread, the parent's pid", identity=True),
                "child_tid": Column("tid of the child", identity=True),
                "child_start_ns": Column("when the child's process started, CLOCK_BOOTTIME", "ns", identity=True),
            },
            shown=Shown(
                tables=(Table(("comm",), title="new processes and threads by parent"),),
                line=("tid", "child_pid", "child_tid"),
                timeline=Timeline(slices=(Slices(text="fork", lasting="", below="process"),)),
            ),
        ),
        Stream(
            "exit",
            "one row per ended process, timed at the end of its last thread; tid and comm are the main thread's",
            columns={
                "ppid": Column("pid of the parent process", identity=True),
                "exit_code": Column("exit code"),
                "signal": Column("signal that ended the process; 0: none", codes=Codes.SIGNAL),
                "core_dumped": Column("1 if the process left a core dump"),
                "lifetime_ns": Column(
                    "time since the process started; for a command started by scope trace, since tracing began", "ns"
                ),
                "user_ns": Column("CPU time in user mode, all threads; without the time since the last tick", "ns"),
                "system_ns": Column("CPU time in the kernel, all threads; without the time since the last tick", "ns"),
                "peak_rss_bytes": Column("highest resident memory", "bytes"),
                "read_bytes": Column("bytes read from storage, as in /proc/PID/io", "bytes"),
                "write_bytes": Column("bytes written to storage, as in /proc/PID/io", "bytes"),
            },
            shown=Shown(
                tables=(
                    LatestRows(
                        ("pid", "comm", "exit_code", "signal", "lifetime_ns", "user_ns", "system_ns", "peak_rss_bytes")
                    ),
                ),
                line=("lifetime_ns", "user_ns", "system_ns", "peak_rss_bytes", "signal", "exit_code"),
                timeline=Timeline(
                    slices=(Slices(named=("comm",), lasting="lifetime_ns", ending=True, below="lifetime"),)
                ),
            ),
            rollup=Rollup(measured="lifetime_ns"),
        ),
    ),
    alternatives=(
        Alternative(
            "tp_btf: sched_process_exec, _fork, _exit; tracepoint: sys_enter_execve, sys_exit_execve, and execveat",
            (*_ALWAYS, "execve_exit", "execve_enter", "execveat_exit", "execveat_enter"),
        ),
        Alternative(
            "tp_btf: sched_process_exec, _fork, _exit, sys_enter, sys_exit",
            (*_ALWAYS, "any_call_exit", "any_call_enter"),
        ),
    ),
    constants=lambda _: {
        "page_size": resource.getpagesize(),
        "nr_execve": NUMBERS["execve"],
        "nr_execveat": NUMBERS["execveat"],
    },
    guide=GUIDE,
)
