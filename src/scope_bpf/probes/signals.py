"""Signals: who sends which signal to whom."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream
from scope_catalogue.codes import Codes
from scope_catalogue.guide import Example, Guide
from scope_catalogue.shown import Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Table

_SENDER = ("sender_pid", "sender_tid", "sender_comm", "sender_uid", "sender_start_ns")
_BY_KERNEL = "absent if the kernel sent it: a timer, a fault, the out-of-memory killer"

GUIDE = Guide(
    examples=(
        Example(
            "scope trace signals --lines -- sh -c 'sleep 9 & kill -TERM $!; wait'",
            "the signals that a command's processes send and get",
        ),
        Example(
            "scope trace signals --duration 1",
            "who sends what to whom on the whole machine",
        ),
    ),
    notes=(
        "A row is a signal that is sent; pid, comm and so on are the receiver's. Traces of a process have the signals "
        "that it gets and those that it sends.",
        "`result` tells what became of it: delivered, ignored, already_pending (it counts once), no_room, lost_info.",
    ),
    limits=("Whether and when a handler ran is not recorded.",),
)

PROBE = Probe(
    name="signals",
    meaning="signals: who sent which to whom, and what became of them",
    streams=(
        Stream(
            "signal",
            "one row per signal that is sent; pid, comm and so on are the receiver's",
            columns={
                "signal": Column("the signal", codes=Codes.SIGNAL),
                "code": Column(
                    "si_code: 0 kill, -6 tgkill, -1 sigqueue, 128 the kernel, above 0 why SIGCHLD or a fault"
                ),
                "result": Column("delivered, ignored, already_pending, no_room or lost_info"),
                "to_thread": Column("1 if it is for the thread alone, 0 if for any thread of the process"),
                "by_process": Column("1 if a process sent it, 0 if the kernel did"),
                "sender_pid": Column(f"pid of the sender; {_BY_KERNEL}", identity=True),
                "sender_tid": Column("tid of the sender", identity=True),
                "sender_comm": Column("name of the sender"),
                "sender_uid": Column("user id of the sender, as seen on the host"),
                "sender_start_ns": Column("when the sender's process started", "ns", identity=True),
            },
            null_unless=dict.fromkeys(_SENDER, "by_process"),
            shown=Shown(
                tables=(
                    Table(
                        ("sender_comm", "signal", "comm"),
                        (Count(),),
                        title="signals by sender and receiver",
                    ),
                ),
                line=("signal", "sender_pid", "sender_comm", "result"),
                timeline=Timeline(slices=(Slices(named=("signal", "sender_comm"), lasting="", below="signal"),)),
            ),
        ),
    ),
    alternatives=(Alternative("tp_btf: signal_generate", ("signal_sent",)),),
    guide=GUIDE,
)
