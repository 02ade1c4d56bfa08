"""The `signals` probe: signals with known counts, senders and receivers."""

import signal
import sys
from collections import Counter

from tests.probes.recording import Record

PYTHON = [sys.executable, "-S", "-E", "-c"]

KILLS = """
import os, signal, sys, threading, time
def named(name): open("/proc/self/comm", "w").write(name)
ready, told = os.pipe()
got = 0
def count(*_):
    global got
    got += 1
child = os.fork()
if not child:
    named("receiver")
    signal.signal(signal.SIGUSR1, count)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    os.write(told, b"x")
    while True:
        signal.pause()
named("sender")
os.read(ready, 1)
for n in range(17):
    os.kill(child, signal.SIGUSR1)
    time.sleep(0.002)
for n in range(11):
    os.kill(child, signal.SIGUSR2)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""


def test_senders_and_receivers(record: Record) -> None:
    """Each signal is one row with its sender, its receiver and what became of it; the child's end is one, too."""
    recording = record("signals", [*PYTHON, KILLS])
    rows = recording.rows("signal")
    ((child,),) = ({row["pid"] for row in rows if row["signal"] == signal.SIGKILL},)
    sent = Counter(
        (row["signal"], row["result"], row["sender_comm"], row["comm"]) for row in rows if row["pid"] == child
    )
    taken = sum(count for (number, result, *_), count in sent.items() if number == signal.SIGUSR1)
    assert taken == 17
    assert sent[signal.SIGUSR2, "ignored", "sender", "receiver"] == 11
    assert sent[signal.SIGKILL, "delivered", "sender", "receiver"] == 1
    assert {row["sender_pid"] for row in rows if row["pid"] == child} == {recording.pid}
    (ended,) = [row for row in rows if row["signal"] == signal.SIGCHLD and row["pid"] == recording.pid]
    assert (ended["sender_pid"], ended["sender_comm"], ended["by_process"]) == (child, "receiver", 1)
    account = recording.accounts["signal"]
    assert (account.emitted, account.lost) == (len(rows), {})


ALARMS = """
import signal, time
rung = 0
def rings(*_):
    global rung
    rung += 1
signal.signal(signal.SIGALRM, rings)
for n in range(13):
    before = rung
    signal.setitimer(signal.ITIMER_REAL, 0.003)
    while rung == before:
        time.sleep(0.001)
"""


def test_the_kernels_signals_have_no_sender(record: Record) -> None:
    """A timer's signals come in interrupts: they have a receiver, and no sender, whoever was interrupted."""
    recording = record("signals", [*PYTHON, ALARMS])
    rows = [row for row in recording.rows("signal") if row["signal"] == signal.SIGALRM]
    assert Counter((row["pid"], row["by_process"], row["sender_pid"], row["sender_comm"]) for row in rows) == {
        (recording.pid, 0, None, None): 13
    }
