"""Sends to an OpenTelemetry collector, over gRPC or as protobuf over HTTP.

Which failures are worth another try: opentelemetry.io/docs/specs/otlp, "Failures". That the collector does not know us,
or not such items, is mended there: those are tried again, too.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from scope_server.errors import InvalidSettings, TargetUnavailable
from scope_server.exports.contract import Item, Point, Span
from scope_server.exports.http import Http, trusting
from scope_server.exports.otlp.address import Address, headers_of
from scope_server.exports.otlp.messages import metrics, spans

_ANSWERS_S = 20.0
_REFUSED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.UNKNOWN,
)
_DETAILS = "grpc-status-details-bin"  # google.rpc.Status; of an exhausted resource: when it will have recovered
_HTTP_REFUSED = (400, 413, 422)
_PROTOBUF = "application/x-protobuf"


class Sender(Protocol):
    """Sends a request; returns the answer, or None if all of it is refused."""

    async def metrics(self, request: Any) -> Any:
        """Of metrics.

        Raises:
            TargetUnavailable: the same may succeed later.
        """

    async def spans(self, request: Any) -> Any:
        """Of spans.

        Raises:
            TargetUnavailable: the same may succeed later.
        """

    async def close(self) -> None:
        """Ends its connections."""


class Otlp:
    """The target."""

    name, most = "otlp", 1000

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def send(self, items: Sequence[Item]) -> int:
        """See `Target`."""
        if isinstance(items[0], Span):
            request: Any = await asyncio.to_thread(spans, [item for item in items if isinstance(item, Span)])
            answer = await self._sender.spans(request)
            refused = answer and answer.partial_success.rejected_spans
        else:
            points = [item for item in items if isinstance(item, Point)]
            answer = await self._sender.metrics(await asyncio.to_thread(metrics, points))
            refused = answer and answer.partial_success.rejected_data_points
        return len(items) if answer is None else min(int(refused), len(items))

    async def close(self) -> None:
        """See `Target`."""
        await self._sender.close()


def sender_to(at: Address, ca_cert: Path | None, headers_file: Path | None) -> Sender:
    """Sends to an address.

    Args:
        ca_cert: trusted instead of the authorities of the system.

    Raises:
        InvalidSettings: a file cannot be read.
    """
    headers = headers_of(headers_file)
    if not at.is_grpc:
        return OverHttp(Http(headers, trusting(ca_cert, "otlp_ca_cert")), f"{at.scheme}://{at.authority}{at.path}")
    try:
        roots = ca_cert.read_bytes() if ca_cert else None
    except OSError as error:
        raise InvalidSettings(f"otlp_ca_cert: cannot read {ca_cert}: {error}") from None
    return OverGrpc(at, roots, headers)


class OverGrpc:
    """A channel, which is opened with the first request."""

    def __init__(self, at: Address, roots: bytes | None, headers: dict[str, str]) -> None:
        self._at, self._roots, self._headers = at, roots, tuple(headers.items())
        self._channel: grpc.aio.Channel | None = None

    async def metrics(self, request: Any) -> Any:
        """See `Sender`."""
        return await self._called(MetricsServiceStub, request)

    async def spans(self, request: Any) -> Any:
        """See `Sender`."""
        return await self._called(TraceServiceStub, request)

    async def _called(self, stub: Any, request: Any) -> Any:
        if self._channel is None:
            self._channel = self._opened()
        try:
            return await stub(self._channel).Export(request, timeout=_ANSWERS_S, metadata=self._headers)
        except grpc.aio.AioRpcError as error:
            if error.code() in _REFUSED or _is_too_large(error):
                return None
            raise TargetUnavailable(f"{error.code().name}: {(error.details() or '')[:200]}") from error

    def _opened(self) -> grpc.aio.Channel:
        options = [("grpc.enable_retries", 0), ("grpc.max_reconnect_backoff_ms", 5000)]
        if not self._at.has_tls:
            return grpc.aio.insecure_channel(self._at.authority, options)
        return grpc.aio.secure_channel(self._at.authority, grpc.ssl_channel_credentials(self._roots), options)

    async def close(self) -> None:
        """See `Sender`."""
        if self._channel:
            await self._channel.close(None)
            self._channel = None


def _is_too_large(error: grpc.aio.AioRpcError) -> bool:
    """Whether the request always is too much for the collector, not only now."""
    told: Any = error.trailing_metadata() or ()
    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and _DETAILS not in dict(told)


class OverHttp:
    """Protobuf over HTTP."""

    def __init__(self, http: Http, url: str) -> None:
        self._http, self._url = http, url

    async def metrics(self, request: Any) -> Any:
        """See `Sender`."""
        return await self._posted("/v1/metrics", request, ExportMetricsServiceResponse)

    async def spans(self, request: Any) -> Any:
        """See `Sender`."""
        return await self._posted("/v1/traces", request, ExportTraceServiceResponse)

    async def _posted(self, path: str, request: Any, kind: Any) -> Any:
        status, answer = await self._http.post(self._url + path, request.SerializeToString(), _PROTOBUF)
        if status in _HTTP_REFUSED:
            return None
        if status >= 300:
            raise TargetUnavailable(f"it answers {status}: {answer[:200].decode(errors='replace')}")
        try:
            return kind.FromString(answer)
        except DecodeError:  # it was taken, whatever it says of it
            return kind()

    async def close(self) -> None:
        """See `Sender`."""
        await self._http.close()
