"""The server's own metrics, as `/metrics` has them, now."""

import time
from collections.abc import Awaitable, Callable, Iterable

from prometheus_client.core import Metric

from scope_server.exports.contract import Kind, Measurement, Point, Portion, Skipped


class OwnMetrics:
    """The source of a server's metrics. What could not be sent in time is replaced by what is true then.

    Args:
        collect: the metrics of now.
        server: what this server is called.
    """

    name, every_s = "metrics", 30.0

    def __init__(self, collect: Callable[[], Awaitable[Iterable[Metric]]], server: str) -> None:
        self._collect, self._server, self._since_ns = collect, server, time.time_ns()
        self._latest = 0

    async def read(self, position: str) -> Portion:
        """See `Source`."""
        now_ns, points = time.time_ns(), list[Point]()
        for metric in await self._collect():
            kinds: dict[str, Measurement] = {}
            for sample in metric.samples:
                if sample.name.endswith("_created"):
                    continue
                kind = Kind.GAUGE if metric.type == "gauge" else Kind.COUNTER
                of = kinds.setdefault(sample.name, Measurement(sample.name, metric.documentation, kind))
                labels = (("server", self._server), *sorted(sample.labels.items()))
                points.append(Point(of, labels, {"value": float(sample.value)}, now_ns, self._since_ns))
        self._latest = len(points)
        return Portion(points, "", False)

    async def skip(self, position: str) -> Skipped:
        """See `Source`: the points that were read latest."""
        return Skipped("", self._latest)
