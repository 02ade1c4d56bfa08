"""From ring buffers to batches: what wakes the reader, and what other threads may do during a read."""

import subprocess
import sys
import threading
import time

import pytest
from tests.probes.recording import Compile

from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

STREAMS = 16
# In total six times the ring's size; each burst is less than a fifth of it
BURSTS = """
import os, time
for n in range(100):
    for m in range(1000):
        os.getppid()
    time.sleep(0.01)
"""
MANY = """
#include "scope.bpf.h"
%s
__u32 turn;
SEC("tp_btf/sys_enter")
int BPF_PROG(entered, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct s0_event *event;
	__u16 stream = turn++ %% %d;

	if (nr != 110 && nr != 173) /* getppid on x86-64 and arm64 */
		return 0;
	if (!scope_passes(task) || !(event = scope_reserve(task, stream, bpf_ktime_get_boot_ns(), sizeof(*event))))
		return 0;
	scope_submit(event, stream, sizeof(*event));
	return 0;
}
"""


@pytest.fixture
def many_streams(compiled: Compile) -> Probe:
    """A probe that emits to many streams in turn; streams are numbered in the order of declaration."""
    streams = [f"struct s{n}_event {{ struct scope_header header; }};\nSCOPE_STREAM(s{n});" for n in range(STREAMS)]
    compiled("many", MANY % ("\n".join(streams), STREAMS))
    return Probe(
        name="many",
        meaning="of no use",
        streams=tuple(Stream(f"s{n}", "a turn", columns={}) for n in range(STREAMS)),
        alternatives=(Alternative("tp_btf: sys_enter", ("entered",)),),
    )


def test_a_ring_is_never_full_before_its_reader_is_woken(many_streams: Probe) -> None:
    """The bytes of all streams in a ring together wake its reader. The test does not poll, so no timeout wakes it."""
    command = HeldCommand([sys.executable, "-S", "-E", "-c", BURSTS])
    options = parse_options(many_streams.options, {"ring_bytes": 1 << 20})
    with Tracer(many_streams, options, Target(command.pid)) as tracer:
        tracer.start()
        command.release()
        while command.poll() is None:
            time.sleep(0.05)
        batches = tracer.finish()
        accounts = tracer.accounts()
    assert {name: dict(account.lost) for name, account in accounts.items() if account.lost} == {}
    assert {batch.stream.name for batch in batches} == accounts.keys()
    assert sum(batch.count for batch in batches) == 100 * 1000


def test_other_threads_may_ask_at_any_time() -> None:
    """Any thread may ask for accounts and cost, wake the tracer or close it, also during and after the close."""
    probe = probe_named("syscalls")
    failed: list[BaseException] = []
    over = threading.Event()
    tracers: list[Tracer] = []

    def ask() -> None:
        try:
            while not over.is_set():
                for tracer in tracers[-2:]:
                    tracer.wake()
                    tracer.cost()
                    tracer.accounts()
        except BaseException as error:
            failed.append(error)

    def poll(tracer: Tracer) -> None:
        while not over.is_set():
            tracer.poll(20)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    busy = ["sh", "-c", "while :; do echo; done"]
    with subprocess.Popen(busy, stdout=subprocess.DEVNULL) as caller:
        try:
            for thread in threads:
                thread.start()
            for _ in range(5):
                tracer = Tracer(probe, parse_options(probe.options, {"ring_bytes": 4096}), Target(caller.pid))
                tracers.append(tracer)
                tracer.start()
                threads.append(threading.Thread(target=poll, args=(tracer,)))
                threads[-1].start()
                while not tracer.accounts()["syscall"].emitted:
                    time.sleep(0.01)
                tracer.close()
                assert tracer.accounts()["syscall"].emitted > 0
                assert tracer.poll(0) == []
        finally:
            over.set()
            caller.kill()
            for thread in threads:
                thread.join()
    assert failed == []
