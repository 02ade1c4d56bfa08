"""Which answers of a collector are for good."""

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.integration.server.exports.collector import Collector, collecting

from scope_server.errors import TargetUnavailable
from scope_server.exports.otlp.address import otlp_address
from scope_server.exports.otlp.target import sender_to

Code = grpc.StatusCode
RECOVERS = (("grpc-status-details-bin", b"google.rpc.Status, with RetryInfo"),)


async def answer(collector: Collector, port: int) -> bool:
    """Whether an answer is for good."""
    async with collecting(port, collector):
        sender = sender_to(otlp_address(f"grpc://127.0.0.1:{port}"), None, None)
        try:
            return await sender.metrics(ExportMetricsServiceRequest()) is None
        finally:
            await sender.close()


@pytest.mark.parametrize("code", [Code.INVALID_ARGUMENT, Code.UNKNOWN, Code.RESOURCE_EXHAUSTED])
async def test_what_is_refused_for_good(code: grpc.StatusCode, port: int) -> None:
    """Such as a message that is too large: it would be so again."""
    assert await answer(Collector(fails=code), port)


@pytest.mark.parametrize(
    "collector",
    [
        Collector(fails=Code.UNAVAILABLE),
        Collector(fails=Code.UNAUTHENTICATED),
        Collector(fails=Code.RESOURCE_EXHAUSTED, trailing=RECOVERS),
    ],
)
async def test_what_may_succeed_later(collector: Collector, port: int) -> None:
    """Such as a collector without memory, which says that it will recover."""
    with pytest.raises(TargetUnavailable, match=collector.fails.name if collector.fails else ""):
        await answer(collector, port)
