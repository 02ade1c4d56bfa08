"""What TLS costs: a new connection, and an upload, against plain text. Client and server share this process's CPUs."""

import statistics
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from scope_proto.scope.v1 import session_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionServicer, SessionStub, add_SessionServicer_to_server
from scope_server.identity.authority import Authority
from scope_wire.channel import listen, open_channel, server_options
from scope_wire.endpoint import Endpoint
from scope_wire.identity import SERVER_NAME, Identity, Kind

_CONNECTIONS = 200
_RECORD_BYTES, _RECORDS = 64 << 10, 4000
_ROUNDS = 3


@dataclass(frozen=True)
class Cost:
    """With TLS and without: the CPU time of a connection in s, of both sides, and bytes a second of an upload."""

    connection_s: float
    plain_connection_s: float
    upload: float
    plain_upload: float


async def costs(authority: Authority) -> Cost:
    """Measures both in turns."""
    own = authority.issue(Identity(Kind.SERVER))
    machine = authority.issue(Identity(Kind.MACHINE, "0" * 32))
    server = grpc.aio.server(options=server_options())
    add_SessionServicer_to_server(_Sink(), server)
    secure = listen(server, Endpoint("127.0.0.1", 0, lambda: own), of_clients=True).showing(lambda: machine)
    plain_port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    def with_tls() -> grpc.aio.Channel:
        return open_channel(secure, SERVER_NAME)

    def plain() -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(f"127.0.0.1:{plain_port}", [("grpc.use_local_subchannel_pool", 1)])

    found: dict[str, list[float]] = {name: [] for name in ("connection", "plain", "upload", "plain_upload")}
    for _ in range(_ROUNDS):
        found["connection"].append(await _connection_s(with_tls))
        found["plain"].append(await _connection_s(plain))
        found["upload"].append(await _upload(with_tls))
        found["plain_upload"].append(await _upload(plain))
    await server.stop(None)
    return Cost(*(statistics.median(values) for values in found.values()))


class _Sink(SessionServicer):
    async def Attend(self, requests: Any, context: Any) -> None:  # type: ignore[override]  # the stub is of blocking calls
        """Nobody attends."""

    async def Renew(self, request: Any, context: Any) -> Any:
        """Nobody renews."""

    async def Annotate(self, request: Any, context: Any) -> Any:
        """Nobody annotates."""

    async def Upload(self, requests: AsyncIterator[session_pb2.UploadRequest], context: Any) -> AsyncIterator[Any]:
        """Answers the last record only."""
        position = 0
        async for request in requests:
            position = request.envelope.position
        yield session_pb2.UploadReply(answers=[session_pb2.Answer(position=position)])


async def _connection_s(channel_of: Callable[[], grpc.aio.Channel]) -> float:
    before = time.process_time()
    for _ in range(_CONNECTIONS):
        async with channel_of() as channel:
            await channel.channel_ready()
    return (time.process_time() - before) / _CONNECTIONS


async def _upload(channel_of: Callable[[], grpc.aio.Channel]) -> float:
    record = bytes(range(256)) * (_RECORD_BYTES // 256)
    async with channel_of() as channel:
        stub: Any = SessionStub(channel)
        call = stub.Upload()
        began = time.monotonic()
        for position in range(_RECORDS):
            envelope = session_pb2.Envelope(position=position, record=record)
            await call.write(session_pb2.UploadRequest(envelope=envelope))
        await call.done_writing()
        async for _ in call:
            pass
        return _RECORDS * _RECORD_BYTES / (time.monotonic() - began)
