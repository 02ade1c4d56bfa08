"""Processes: what they execute, whom they start, how they end."""

import resource

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.shown import Live, Rollup, Slices, Timeline
from scope_bpf.catalogue.stream import Column, Stream
from scope_bpf.probes.syscalls import NUMBERS

_ALWAYS = ("exec_done", "fork_done", "exit_done")

PROBE = Probe(
    name="process",
    meaning="execs with all arguments, failed ones too; forks; exits with the resources used",
    streams=(
        Stream(
            "exec",
            "an exec: after it, if it succeeded",
            columns={
                "filename": Column("what was executed, as the caller named it; absent if unreadable"),
                "args": Column("every argument; those of a script begin with its interpreter; absent if unreadable"),
                "cwd": Column("working directory"),
                "ppid": Column("parent process"),
                "ret": Column("0, or -errno of an exec that failed"),
                "args_truncated": Column("1 if there were more arguments than 12 KiB, or 512 of a failed exec"),
                "cwd_truncated": Column("1 if the working directory lacks its beginning"),
            },
            hidden=("filename_read", "args_read"),
            null_unless={"filename": "filename_read", "args": "args_read"},
            live=Live(latest=("pid", "ppid", "comm", "ret", "filename", "args")),
            line=("ppid", "ret", "filename", "args"),
            timeline=Timeline(slices=(Slices(named=("filename",), lasting="", below="process"),)),
            rollup=Rollup(failed="ret"),
            describes={"exe": "filename", "cmdline": "args", "parent_pid": "ppid", "failed": "ret"},
        ),
        Stream(
            "fork",
            "a process or thread that was started; described by its parent",
            columns={
                "child_pid": Column("process of the child; the parent's own for a thread"),
                "child_tid": Column("thread that was started"),
                "child_start_ns": Column("when the child's process started, CLOCK_BOOTTIME", "ns"),
            },
            live=Live(by=("comm",)),
            line=("tid", "child_pid", "child_tid"),
            timeline=Timeline(slices=(Slices(text="fork", lasting="", below="process"),)),
        ),
        Stream(
            "exit",
            "a process, when its last thread ends; described by its main thread",
            columns={
                "ppid": Column("parent process"),
                "exit_code": Column("what it gave exit()"),
                "signal": Column("the signal that ended it; 0 if none did"),
                "core_dumped": Column("1 if it left a core dump"),
                "lifetime_ns": Column("since the process started; of a held command, since its release", "ns"),
                "user_ns": Column("CPU time in user mode, all threads; what is since the last tick is missing", "ns"),
                "system_ns": Column("CPU time in the kernel, likewise", "ns"),
                "peak_rss_bytes": Column("most memory resident at a time", "bytes"),
                "read_bytes": Column("read from storage, as /proc/PID/io counts", "bytes"),
                "write_bytes": Column("written to storage, likewise", "bytes"),
            },
            live=Live(
                latest=("pid", "comm", "exit_code", "signal", "lifetime_ns", "user_ns", "system_ns", "peak_rss_bytes")
            ),
            line=("lifetime_ns", "user_ns", "system_ns", "peak_rss_bytes", "signal", "exit_code"),
            timeline=Timeline(slices=(Slices(named=("comm",), lasting="lifetime_ns", ending=True, below="lifetime"),)),
            rollup=Rollup(measured="lifetime_ns"),
        ),
    ),
    alternatives=(
        Alternative(
            "tp_btf: sched_process_exec, _fork, _exit; tracepoint: sys_enter_execve, sys_exit_execve and execveat's",
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
)
