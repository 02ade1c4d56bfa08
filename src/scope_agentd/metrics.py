"""/metrics: the counters of every stage, read where they are kept.

No label has a pid, a comm or another open set, but for who holds memory of a GPU: these are few.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scope_agentd.pipeline.queue import Queue
from scope_agentd.pipeline.ship import Shipper
from scope_agentd.tasks import State, Tasks

if TYPE_CHECKING:  # an idle agent does without numpy and Arrow
    from scope_bpf.stream import Stream

_NOT_MEASURED = ("ktime_ns", "start_ns", "uid")


class AgentCollector(Collector):
    """Reads tasks, queue and connection at each scrape."""

    def __init__(self, tasks: Tasks, queue: Queue, shipper: Shipper) -> None:
        self._tasks, self._queue, self._shipper = tasks, queue, shipper

    def collect(self) -> Iterator[Metric]:
        """The metrics as they stand."""
        yield from self._of_tasks()
        yield from self._of_samples()
        yield GaugeMetricFamily("scope_agent_held_batches", "Batches not acknowledged yet", self._queue.held_batches)
        yield CounterMetricFamily("scope_agent_dropped_batches", "Batches dropped", self._queue.dropped_batches)
        yield CounterMetricFamily("scope_agent_stored_batches", "Batches stored", self._shipper.stored_batches)
        yield CounterMetricFamily("scope_agent_rejected_batches", "Batches rejected", self._shipper.rejected_batches)
        yield CounterMetricFamily("scope_agent_retried_batches", "Batches to repeat", self._shipper.retried_batches)
        yield CounterMetricFamily("scope_agent_connections", "Connections made", self._shipper.connections)
        yield GaugeMetricFamily("scope_agent_connected", "1 while connected", float(self._shipper.connected))

    def _of_tasks(self) -> Iterator[Metric]:
        states = GaugeMetricFamily("scope_tasks", "Tasks by state", labels=["state"])
        for state in State:
            states.add_metric([state], sum(task.state is state for task in self._tasks.all()))
        yield states
        emitted: dict[tuple[str, str], int] = {}
        lost: dict[tuple[str, str, str, str], int] = {}
        for task in self._tasks.all():
            probe = task.definition.probe
            for stream in probe.public_streams:
                account = task.books.account(stream.name)
                key = (probe.name, stream.name)
                emitted[key] = emitted.get(key, 0) + account.emitted
                for loss in account.lost:
                    where = (*key, loss.place, loss.reason)
                    lost[where] = lost.get(where, 0) + loss.count
        events = CounterMetricFamily("scope_events", "Events the kernel emitted", labels=["probe", "stream"])
        for labels, count in emitted.items():
            events.add_metric(list(labels), count)
        yield events
        losses = CounterMetricFamily("scope_lost", "Events lost", labels=["probe", "stream", "place", "reason"])
        for where, count in lost.items():
            losses.add_metric(list(where), count)
        yield losses
        share = GaugeMetricFamily("scope_cpu_share", "Of one CPU, by BPF programs", labels=["probe"])
        shares: dict[str, float] = {}
        for task in self._tasks.running():
            name = task.definition.probe.name
            shares[name] = shares.get(name, 0.0) + task.cost.cpu_share
        for name, value in shares.items():
            share.add_metric([name], value)
        yield share

    def _of_samples(self) -> Iterator[Metric]:
        """Numbers of the latest samples, if such a task runs: scope_STREAM_COLUMN."""
        found: dict[str, GaugeMetricFamily] = {}
        told: set[tuple[str, ...]] = set()  # two tasks may look at the same
        for stream, row in self._latest_rows():
            labels = [str(row[name]) for name in stream.labels]
            if (stream.name, *labels) in told:
                continue
            told.add((stream.name, *labels))
            measured = stream.described().keys() - {*stream.labels, *_NOT_MEASURED}
            for name in sorted(name for name in measured if isinstance(row[name], int | float)):
                metric = f"scope_{stream.name}_{name}"
                family = GaugeMetricFamily(metric, stream.described()[name].meaning, labels=stream.labels)
                found.setdefault(metric, family).add_metric(labels, row[name])
        yield from found.values()

    def _latest_rows(self) -> Iterator[tuple["Stream", dict[str, Any]]]:
        for task in self._tasks.running():
            for stream in task.definition.probe.public_streams:
                for row in task.latest(stream.name) if stream.labels else ():
                    yield stream, row


def registry(tasks: Tasks, queue: Queue, shipper: Shipper) -> CollectorRegistry:
    """A registry of the agent's own metrics only."""
    made = CollectorRegistry()
    made.register(AgentCollector(tasks, queue, shipper))
    return made
