"""An hour at a fifth of the maximum rate: memory must not grow. Runs only if named: `python -m bench soak`.

SOAK_SECONDS sets another duration.
"""

import os
import subprocess
import time

from bench.daemon import Agent, running_agent
from bench.measure import Result, at_most, loop
from scope_proto.scope.v1 import task_pb2

RATE = 900_000  # events/s
SECONDS = int(os.environ.get("SOAK_SECONDS", "3600"))
SETTLED = 0.1  # share of the time after which pools and caches are full
SAMPLE_S = 5.0


def run() -> list[Result]:
    """Memory over time, its growth after warm-up, and lost events."""
    with running_agent() as agent:
        command = ["sh", "-c", "read go; exec " + " ".join(loop(RATE * SECONDS, RATE))]
        workload = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert workload.stdin
        agent.start(task_pb2.Definition(probe="syscalls", target=task_pb2.Target(pid=workload.pid)))
        workload.stdin.write(b"\n")
        workload.stdin.close()
        before = agent.cpu_seconds
        samples = _samples(agent, workload)
        share = (agent.cpu_seconds - before) / (len(samples) * SAMPLE_S)
        events, lost = agent.sink.events, agent.sink.lost
    settled = samples[int(len(samples) * SETTLED) :]
    tenth = max(1, len(settled) // 10)
    growth = sum(settled[-tenth:]) / tenth - sum(settled[:tenth]) / tenth
    return [
        Result(f"soak: events in {SECONDS} s", f"{events:,} stored, {lost:,} lost", "0 lost", not lost),
        at_most("soak: peak resident memory, MB", max(samples), 200),
        at_most("soak: memory growth from the first tenth after warm-up to the last tenth, MB", growth, 2),
        Result("soak: share of one CPU", f"{share:.0%}"),
    ]


def _samples(agent: Agent, workload: subprocess.Popen[bytes]) -> list[float]:
    samples = []
    while workload.poll() is None:
        time.sleep(SAMPLE_S)
        samples.append(agent.resident_mb)
    return samples
