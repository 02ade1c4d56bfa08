"""The HTTP server of the agent's metrics: answers scrapes, whatever other connections do."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.registry import Collector

from scope_agentd import metrics_server
from scope_agentd.errors import PortTaken
from scope_agentd.metrics_server import MetricsServer

SCRAPE = "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {}\r\n\r\n"


class Broken(Collector):
    def collect(self) -> Iterator[Metric]:
        raise ValueError("made up")


@pytest.fixture
def metrics() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("scope_tasks", "Tasks", registry=registry).set(7)
    return registry


@pytest.fixture
async def port(metrics: CollectorRegistry) -> AsyncIterator[int]:
    server = MetricsServer(metrics, lambda: "")
    yield await server.start("127.0.0.1:0")
    await server.stop()


async def answer(port: int, request: str) -> str:
    """The whole answer to a request, until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    text = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return text.decode()


@pytest.mark.parametrize(("accepted", "kind"), [("*/*", "text/plain"), ("application/openmetrics-text", "openmetrics")])
async def test_a_scrape(port: int, accepted: str, kind: str) -> None:
    """A scrape gets the metrics, in the format that it asks for."""
    head, _, body = (await answer(port, SCRAPE.format(accepted))).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert kind in head and f"Content-Length: {len(body)}\r\n" in head
    assert "scope_tasks 7.0\n" in body


async def ended(reader: asyncio.StreamReader) -> None:
    """Returns when the server has closed the connection."""
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 60) == b""


async def test_idle_connections_keep_no_scrape_away(port: int) -> None:
    """Of many connections that send nothing, the oldest are closed; none takes a thread, and a scrape is answered."""
    before, most = threading.active_count(), metrics_server.MOST_CONNECTIONS
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5 * most)]
    assert "scope_tasks 7.0" in await answer(port, SCRAPE.format("*/*"))
    assert threading.active_count() <= before + 1  # the one that collects
    for reader, _ in idle[: 4 * most + 1]:
        await ended(reader)
    assert not any(reader.at_eof() for reader, _ in idle[4 * most + 1 :])
    for _, writer in idle:
        writer.close()


@pytest.mark.parametrize("sent", ["", "GET /metr", "GET /metrics HTTP/1.1\r\nHost: x\r\n", "x" * (20 << 10)])
async def test_a_request_has_limits(port: int, monkeypatch: pytest.MonkeyPatch, sent: str) -> None:
    """A connection whose request does not come, is not finished in time, or is too long is closed without an answer."""
    monkeypatch.setattr(metrics_server, "REQUEST_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent.encode())
    await ended(reader)
    writer.close()


async def test_what_is_not_a_scrape(port: int) -> None:
    """Other paths, other methods and requests that are not HTTP get an error."""
    assert (await answer(port, "GET / HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 404 Not Found\r\n")
    assert (await answer(port, "POST /metrics HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 405 Method Not Allowed\r\n")
    assert (await answer(port, "\0\r\n\r\n")).startswith("HTTP/1.1 404")


async def test_health(metrics: CollectorRegistry) -> None:
    """It is asked each time; without health, its reason is told."""
    reasons = iter(["", "needs a new token: it was revoked"])
    server = MetricsServer(metrics, lambda: next(reasons))
    port = await server.start("127.0.0.1:0")
    first, second = [await answer(port, "GET /health HTTP/1.1\r\n\r\n") for _ in range(2)]
    await server.stop()
    assert first.startswith("HTTP/1.1 200 OK\r\n") and first.endswith("\r\n\r\nhealthy\n")
    assert second.startswith("HTTP/1.1 503 ") and second.endswith("\r\n\r\nneeds a new token: it was revoked\n")


async def test_metrics_that_cannot_be_collected(
    port: int, metrics: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """A collector that fails is answered with 500 and logged; the next scrape is answered again."""
    broken = Broken()
    metrics.register(broken)
    assert (await answer(port, SCRAPE.format("*/*"))).startswith("HTTP/1.1 500")
    assert "the metrics cannot be collected" in caplog.text
    metrics.unregister(broken)
    assert (await answer(port, SCRAPE.format("*/*"))).startswith("HTTP/1.1 200")


async def test_a_taken_port(port: int, metrics: CollectorRegistry) -> None:
    """A port that another program uses is an error that names the option."""
    with pytest.raises(PortTaken, match="--metrics"):
        await MetricsServer(metrics, str).start(f"127.0.0.1:{port}")
