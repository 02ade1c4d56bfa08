"""The cost of an idle agent."""

import time

from bench.daemon import running_agent
from bench.measure import Result, at_most

SECONDS = 20


def run() -> list[Result]:
    """Memory, and share of one CPU after warm-up."""
    with running_agent() as agent:
        time.sleep(3)
        before = agent.cpu_seconds
        time.sleep(SECONDS)
        share = (agent.cpu_seconds - before) / SECONDS
        memory = agent.resident_mb
    return [
        at_most("agent: resident memory when idle, MB", memory, 90),
        at_most("agent: share of one CPU when idle, %", share * 100, 0.1),
    ]
