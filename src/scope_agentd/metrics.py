"""/metrics: the counters of all stages, read at each scrape.

Labels have no unbounded values such as pid or comm, except for processes that use a GPU's memory: these are few.
Counters never decrease: see `totals`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from scope_agentd.annotations.socket import AnnotationSocket
from scope_agentd.bus.bus import Bus
from scope_agentd.cgroup_metrics import CgroupCollector
from scope_agentd.host_metrics import HostCollector
from scope_agentd.pipeline.spool import Spool
from scope_agentd.run import Run
from scope_agentd.session.link import Link
from scope_agentd.session.upload import Upload
from scope_agentd.tasks import Tasks
from scope_agentd.totals import Totals
from scope_bpf.containers.containers import Containers
from scope_proto.scope.v1 import control_pb2, task_pb2
from scope_wire.refused.refusals import Reason, Refusals

if TYPE_CHECKING:  # an idle agent must not load numpy and Arrow
    from scope_bpf.catalogue.stream import Stream

_NOT_MEASURED = ("ktime_ns", "start_ns", "uid")
_STATES = {number: name.removeprefix("TASK_STATE_").lower() for name, number in task_pb2.TaskState.items() if number}


class AgentCollector(Collector):
    """Collects from tasks, totals, spool, bus and connection at each scrape; `node` describes the machine."""

    def __init__(
        self,
        node: control_pb2.Node,
        tasks: Tasks,
        totals: Totals,
        spool: Spool,
        *,
        bus: Bus,
        link: Link,
        upload: Upload,
        annotations: AnnotationSocket,
        refusals: Refusals,
    ) -> None:
        self._node = node
        self._tasks, self._totals, self._spool, self._bus = tasks, totals, spool, bus
        self._link, self._upload, self._annotations, self._refusals = link, upload, annotations, refusals

    def collect(self) -> Iterator[Metric]:
        """The current metrics."""
        about = {name: getattr(self._node, name) for name in ("machine_id", "hostname", "agent_version", "kernel")}
        yield InfoMetricFamily("scope_agent", "The agent and its machine", about)
        yield from self._of_tasks()
        yield from self._of_samples()
        yield from self._of_spool()
        yield from self._of_bus()
        said = CounterMetricFamily("scope_agent_annotations", "Annotations of programs by answer", labels=["answer"])
        said.add_metric(["taken"], self._annotations.taken)
        said.add_metric(["refused"], self._annotations.refused)
        yield said
        answers = CounterMetricFamily(
            "scope_agent_answered_records", "Records by the server's answer", labels=["answer"]
        )
        for outcome, count in self._upload.answered.items():
            answers.add_metric([outcome.value], count)
        yield answers
        refused = CounterMetricFamily("scope_agent_refused_peers", "Refused peers", labels=["reason"])
        for reason in Reason:
            refused.add_metric([reason.value], self._refusals.counts[reason])
        yield refused
        yield CounterMetricFamily("scope_agent_connections", "Connections to the server", self._link.connections)
        yield GaugeMetricFamily("scope_agent_connected", "1 while connected to the server", float(self._link.connected))
        member = self._link.membership
        yield GaugeMetricFamily(
            "scope_agent_needs_token",
            "1 while the server refuses this machine until it joins again",
            float(bool(member.fleet.needs_token)),
        )
        yield GaugeMetricFamily(
            "scope_agent_certificate_expires_seconds",
            "When the agent's certificate ends, in seconds since 1970",
            member.credentials.holder.expires.timestamp(),
        )

    def _of_tasks(self) -> Iterator[Metric]:
        states = Counter(_STATES[task.state] for task in self._tasks.all())
        family = GaugeMetricFamily("scope_tasks", "Tasks by state", labels=["state"])
        for name in _STATES.values():
            family.add_metric([name], states[name])
        yield family
        counts = self._totals.counts()
        labels = ["probe", "stream"]
        for name, meaning, counted, of in (
            ("scope_events", "Events emitted by the kernel", counts["emitted"], labels),
            (
                "scope_incomplete",
                "Events that lack a part: a known process, a stack, a name, or memory that could not be read",
                counts["incomplete"],
                labels,
            ),
            ("scope_left_out", "Rows that the filter of a task did not take", counts["left_out"], labels),
            ("scope_lost", "Events lost before they were spooled", counts["lost"], [*labels, "place", "reason"]),
        ):
            counter = CounterMetricFamily(name, meaning, labels=of)
            for key, count in counted.items():
                counter.add_metric(list(key), count)
            yield counter
        share = GaugeMetricFamily("scope_cpu_share", "Share of one CPU used by BPF programs", labels=["probe"])
        shares: dict[str, float] = {}
        for run in self._recording():
            name = run.definition.probe.name
            shares[name] = shares.get(name, 0.0) + run.progress.cost.cpu_share
        for name, value in shares.items():
            share.add_metric([name], value)
        yield share

    def _of_spool(self) -> Iterator[Metric]:
        held = self._spool.held()
        yield GaugeMetricFamily("scope_agent_spool_bytes", "Bytes waiting on disk", held.bytes)
        yield GaugeMetricFamily("scope_agent_spool_limit_bytes", "Limit of bytes waiting on disk", held.limit_bytes)
        yield GaugeMetricFamily("scope_agent_spool_records", "Records waiting on disk", held.records)
        yield CounterMetricFamily(
            "scope_agent_dropped_records", "Records dropped because the spool was full", held.dropped_records
        )
        yield CounterMetricFamily("scope_agent_damaged_records", "Records found damaged on disk", held.damaged_records)

    def _of_bus(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("scope_agent_bus_topics", "Topics of the local bus with a reader", self._bus.topics)
        sent = CounterMetricFamily("scope_agent_bus_events", "Events sent on the local bus", labels=["stream"])
        for stream, count in self._bus.sent.items():
            sent.add_metric([stream], count)
        yield sent
        dropped = CounterMetricFamily(
            "scope_agent_bus_dropped_events",
            "Events that had readers on the local bus but were not sent",
            labels=["stream", "reason"],
        )
        for key, count in self._bus.dropped().items():
            dropped.add_metric(list(key), count)
        yield dropped

    def _of_samples(self) -> Iterator[Metric]:
        """Numbers of the latest samples, if a sampling task runs: scope_STREAM_COLUMN."""
        found: dict[str, GaugeMetricFamily] = {}
        told: set[tuple[str, ...]] = set()  # two tasks may sample the same GPU
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

    def _recording(self) -> list[Run]:
        return [task.run for task in self._tasks.recording() if task.run]

    def _latest_rows(self) -> Iterator[tuple["Stream", dict[str, Any]]]:
        for run in self._recording():
            for stream in run.definition.probe.public_streams:
                for row in run.latest(stream.name) if stream.labels else ():
                    yield stream, row


def registry(collector: AgentCollector) -> CollectorRegistry:
    """A registry of the agent's metrics, of its process's, and of the machine's and its cgroups'."""
    made = CollectorRegistry()
    made.register(collector)
    made.register(HostCollector())
    made.register(CgroupCollector(Containers()))
    ProcessCollector(registry=made)
    return made
