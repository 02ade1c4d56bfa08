"""A collector of OpenTelemetry's protocol, for tests: it keeps what it gets, and fails as it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb2
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)


@dataclass
class Collector:
    """What arrived.

    Attributes:
        fails: the code that requests get, which are then not kept.
        trailing: metadata beside that code.
        rejects: how many spans of each request are told to be rejected.
        hangs: requests get no answer.
    """

    metrics: list[Any] = field(default_factory=list)
    traces: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    fails: grpc.StatusCode | None = None
    trailing: tuple[tuple[str, bytes], ...] = ()
    rejects: int = 0
    hangs: bool = False

    def spans(self) -> list[tuple[dict[str, Any], Any]]:
        """Attributes of the resource, and span; in the order in which they came."""
        return [
            (attributes(of.resource), span)
            for request in self.traces
            for of in request.resource_spans
            for scoped in of.scope_spans
            for span in scoped.spans
        ]

    def points(self, name: str) -> Iterator[tuple[dict[str, Any], Any]]:
        """Attributes and points of a metric, in the order in which they came."""
        for request in self.metrics:
            for of in request.resource_metrics:
                for scoped in of.scope_metrics:
                    for metric in scoped.metrics:
                        if metric.name == name:
                            data = metric.gauge if metric.HasField("gauge") else metric.sum
                            yield from ((attributes(point), point) for point in data.data_points)


def attributes(of: Any) -> dict[str, Any]:
    """Attributes as a dict."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}


def _servicers(collector: Collector) -> tuple[Any, Any]:
    async def taken(request: Any, context: Any, kept: list[Any]) -> None:
        collector.headers.append(dict(context.invocation_metadata()))
        if collector.hangs:
            await asyncio.sleep(3600)
        if collector.fails:
            await context.abort(collector.fails, "as told", collector.trailing)
        kept.append(request)

    class Metrics(MetricsServiceServicer):
        async def Export(self, request: Any, context: Any) -> Any:
            await taken(request, context, collector.metrics)
            return metrics_pb2.ExportMetricsServiceResponse()

    class Traces(TraceServiceServicer):
        async def Export(self, request: Any, context: Any) -> Any:
            await taken(request, context, collector.traces)
            partial = trace_pb2.ExportTracePartialSuccess(rejected_spans=collector.rejects)
            return trace_pb2.ExportTraceServiceResponse(partial_success=partial)

    return Metrics(), Traces()


@asynccontextmanager
async def collecting(
    port: int, collector: Collector, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[Collector]:
    """Serves a collector at a port of loopback."""
    server = grpc.aio.server()
    of_metrics, of_traces = _servicers(collector)
    add_MetricsServiceServicer_to_server(of_metrics, server)
    add_TraceServiceServicer_to_server(of_traces, server)
    at = f"127.0.0.1:{port}"
    got = server.add_secure_port(at, credentials) if credentials else server.add_insecure_port(at)
    assert got == port
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(None)


async def eventually(holds: Callable[[], bool], seconds: float = 240) -> None:
    """Waits until something holds."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.05)
