"""What is stored arrives at a collector of OpenTelemetry's protocol: once, late rows too, and after a restart."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.integration.server.api.recorded import store
from tests.integration.server.exports.collector import Collector, collecting, eventually
from tests.integration.server.exports.conftest import Tls
from tests.integration.server.records import Line
from tests.integration.server.running import Server, until

Start = Callable[..., AbstractAsyncContextManager[Server]]

HTTP = {"method": "GET", "path": "/api/tags", "duration_ns": 7919, "peer": "10.0.0.9", "comm": "ollama", "tid": 4711}
LLM = {"prompt_tokens": 11, "generated_tokens": 13, "cached_tokens": None, "duration_ns": 101, "comm": "llama-server"}


async def begun(line: Line, *names: str) -> None:
    """Waits until exports have their first position: what is stored from then on is sent."""

    async def there() -> set[str]:
        return {name for (name,) in await asyncio.to_thread(line.query, "SELECT name FROM store.exports")}

    await until(there, lambda found: {*names} <= found, 240)


async def exported(server: Server, metric: str, export: str) -> float:
    """The value of a metric of an export."""
    async with aiohttp.ClientSession(connector=server.local()) as session:
        text = await (await session.get(f"http://{server.http}/metrics")).text()
    found = [
        line for line in text.splitlines() if line.startswith(f'scope_server_export_{metric}{{export="{export}"}}')
    ]
    return float(found[0].rsplit(" ", 1)[1]) if found else -1.0


async def test_requests_are_spans(start_server: Start, line: Line, port: int, tls: Tls, tmp_path: Path) -> None:
    """Over TLS, with the headers of the file: requests of HTTP and of models, with the names of the conventions."""
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer s3cret\n")
    settings = {"otlp": f"grpcs://127.0.0.1:{port}", "otlp_ca_cert": tls.certificate, "otlp_headers_file": headers}
    async with collecting(port, Collector(), tls.of_server()) as collector, start_server(**settings):
        await begun(line, "otlp.spans.ollama_request", "otlp.spans.llama_request")
        await store(line, "ollama_request", [HTTP | {"status": 200}, HTTP | {"status": 503, "peer": None}])
        loaded = [{"path": "/models/tiny.gguf"}] * 2 + [{"path": f"/{name}.gguf", "pid": 4713} for name in "ab"]
        await store(line, "ollama_model", loaded)
        await store(line, "llama_request", [LLM, LLM | {"draft": 1}, LLM | {"pid": 4712}, LLM | {"pid": 4713}])
        await eventually(lambda: len(collector.spans()) == 5)
    assert {told["authorization"] for told in collector.headers} == {"Bearer s3cret"}
    found = {
        span.attributes and dict(_attributes(span)).get("http.response.status_code"): (of, span)
        for of, span in collector.spans()
    }
    of, served = found[200]
    assert of.items() >= {"service.name": "ollama", "host.name": "stand-in", "process.pid": "4711"}.items()
    assert (served.name, served.kind, served.end_time_unix_nano - served.start_time_unix_nano) == ("GET", 2, 7919)
    told = dict(_attributes(served))
    assert told.items() >= {"http.request.method": "GET", "url.path": "/api/tags", "client.address": "10.0.0.9"}.items()
    assert served.status.code == 0
    assert found[503][1].status.code == 2, "an error of the server"
    assert "client.address" not in dict(_attributes(found[503][1])), "what is absent is no attribute"
    told = dict(_attributes(found[None][1]))
    assert told.items() >= {"gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 13}.items()
    assert (found[None][1].name, told["gen_ai.operation.name"]) == ("text_completion", "text_completion")
    models = {of["process.pid"]: dict(_attributes(span)).get("gen_ai.request.model") for of, span in collector.spans()}
    assert models == {"4711": "tiny.gguf", "4712": None, "4713": None}, "unknown, or one of two"
    assert len({(span.trace_id, span.span_id) for _, span in collector.spans()}) == 5


async def test_minutes_are_those_of_sql(start_server: Start, line: Line, port: int) -> None:
    """Totals of a minute are those of scope.STREAM_minutes; when rows of it come later, all of it is sent again."""
    async with collecting(port, Collector()) as collector, start_server(otlp=f"grpc://127.0.0.1:{port}"):
        await begun(line, "otlp.minutes")

        def arrived() -> dict[tuple[Any, ...], tuple[int, int]]:
            """The latest count and sum, by the end of the minute and labels."""
            found: dict[tuple[Any, ...], Any] = {}
            for name in ("count", "sum"):
                for of, point in collector.points(f"scope.ollama_request.{name}"):
                    key = (point.time_unix_nano, of["comm"], of.get("path"))
                    found[key] = {**found.get(key, {}), name: point.as_int}
            return {key: (values["count"], values["sum"]) for key, values in found.items() if len(values) == 2}

        def stored() -> dict[tuple[Any, ...], tuple[int, int]]:
            rows = line.query(
                "SELECT extract(epoch FROM minute)::bigint, comm, path, sum(count)::bigint, sum(sum)::bigint"
                " FROM scope.ollama_request_minutes('-infinity') GROUP BY 1, 2, 3"
            )
            return {((minute + 60) * 10**9, comm, path): (count, total) for minute, comm, path, count, total in rows}

        await store(line, "ollama_request", [HTTP] * 5 + [HTTP | {"path": "/api/chat"}] * 3)
        first = stored()
        assert {count for count, _ in first.values()} == {5, 3}
        await eventually(lambda: arrived() == first)
        await store(line, "ollama_request", [HTTP] * 2)
        await eventually(lambda: arrived() == stored())
        assert {count for count, _ in arrived().values()} == {7, 3}
        await eventually(lambda: any(True for _ in collector.points("scope_server_stored_events_total")))


async def test_nothing_comes_twice_and_a_restart_goes_on(start_server: Start, line: Line, port: int) -> None:
    """What is stored while no server runs is sent by the next one, and what was acknowledged is not sent again."""
    async with collecting(port, Collector()) as collector:
        async with start_server(otlp=f"grpc://127.0.0.1:{port}") as server:
            await begun(line, "otlp.spans.ollama_request")
            await store(line, "ollama_request", [HTTP | {"request": number} for number in range(7)])
            acknowledged = partial(exported, server, "items_total", "otlp.spans.ollama_request")
            await until(acknowledged, lambda count: count == 7, 240)
        await store(line, "ollama_request", [HTTP | {"request": number} for number in range(7, 18)])
        async with start_server(otlp=f"grpc://127.0.0.1:{port}"):
            await eventually(lambda: len(collector.spans()) >= 18)
            await asyncio.sleep(1)
    assert len({span.span_id for _, span in collector.spans()}) == len(collector.spans()) == 18


async def test_a_failing_collector_delays_nothing(start_server: Start, line: Line, port: int) -> None:
    """While no collector listens, or one refuses to work, rows are stored and answered; later all of them arrive."""
    async with start_server(otlp=f"grpc://127.0.0.1:{port}") as server:
        name = "otlp.spans.ollama_request"
        await begun(line, name)
        await store(line, "ollama_request", [HTTP | {"request": number} for number in range(5)])
        assert len((await server.get("events", "ollama_request"))["events"]) == 5
        await until(lambda: exported(server, "failures_total", name), lambda count: count >= 1, 240)
        async with collecting(port, Collector(fails=grpc.StatusCode.UNAVAILABLE)) as collector:
            before = await exported(server, "failures_total", name)
            await until(lambda: exported(server, "failures_total", name), lambda count: count > before, 240)
            assert not collector.spans()
            collector.fails = None
            await eventually(lambda: len(collector.spans()) == 5)
            await until(lambda: exported(server, "items_total", name), lambda count: count == 5, 240)
            assert await exported(server, "given_up_items_total", name) == 0


async def test_what_is_refused_is_counted(start_server: Start, line: Line, port: int) -> None:
    """Spans that the collector rejects, and requests that it refuses for good, are counted and not sent again."""
    name = "otlp.spans.ollama_request"
    async with (
        collecting(port, Collector(rejects=2)) as collector,
        start_server(otlp=f"grpc://127.0.0.1:{port}") as server,
    ):
        await begun(line, name)
        await store(line, "ollama_request", [HTTP | {"request": number} for number in range(5)])
        await until(lambda: exported(server, "refused_items_total", name), lambda count: count == 2, 240)
        assert await exported(server, "items_total", name) == 3
        collector.fails = grpc.StatusCode.INVALID_ARGUMENT
        await store(line, "ollama_request", [HTTP | {"request": number} for number in range(5, 8)])
        await until(lambda: exported(server, "refused_items_total", name), lambda count: count == 5, 240)


async def test_what_is_not_taken_for_too_long_is_given_up(
    start_server: Start, line: Line, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that a collector does not take within the bound are counted, and later ones are sent."""
    monkeypatch.setattr("scope_server.exports.push.Push.__init__.__defaults__", (1.0,))
    name = "otlp.spans.ollama_request"
    async with start_server(otlp=f"grpc://127.0.0.1:{port}") as server:
        await begun(line, name)
        await store(line, "ollama_request", [HTTP | {"request": number} for number in range(5)])
        await until(lambda: exported(server, "given_up_items_total", name), lambda count: count == 5, 240)
        async with collecting(port, Collector()) as collector:
            await eventually(lambda: bool(collector.metrics))  # then the server has found it
            await store(line, "ollama_request", [HTTP | {"request": 5}])
            await eventually(lambda: len(collector.spans()) == 1)


async def test_a_collector_that_never_answers(
    start_server: Start, line: Line, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again after a while; the server stops at once all the same."""
    monkeypatch.setattr("scope_server.exports.otlp.target._ANSWERS_S", 0.5)
    name = "otlp.spans.ollama_request"
    async with collecting(port, Collector(hangs=True)) as collector:
        async with start_server(otlp=f"grpc://127.0.0.1:{port}") as server:
            await begun(line, name)
            await store(line, "ollama_request", [HTTP])
            await until(lambda: exported(server, "failures_total", name), lambda count: count >= 1, 240)
        assert not collector.spans()


async def test_one_of_two_servers_pushes(start_server: Start, line: Line, port: int, tmp_path: Path) -> None:
    """Spans come once while two servers run; when the one that pushes ends, the other goes on."""
    (tmp_path / "other").mkdir()
    name = "otlp.spans.ollama_request"
    settings = {"otlp": f"grpc://127.0.0.1:{port}"}
    async with collecting(port, Collector()) as collector:
        other = start_server(**settings, socket=tmp_path / "other" / "api.sock")
        async with start_server(**settings) as one:
            await begun(line, name)
            second = await other.__aenter__()
            try:
                await store(line, "ollama_request", [HTTP | {"request": number} for number in range(5)])
                await eventually(lambda: len(collector.spans()) == 5)
                assert await exported(one, "items_total", name) == 5
                assert await exported(second, "items_total", name) == -1, "it has no turn"
                assert await exported(second, "items_total", "otlp.metrics") >= 0, "its own metrics are pushed"
            except BaseException:
                await other.__aexit__(None, None, None)
                raise
        try:
            await store(line, "ollama_request", [HTTP | {"request": number} for number in range(5, 8)])
            await eventually(lambda: len(collector.spans()) == 8)
            assert await exported(second, "items_total", name) == 3
        finally:
            await other.__aexit__(None, None, None)


async def test_protobuf_over_http(start_server: Start, line: Line, port: int) -> None:
    """The same messages are posted to /v1/metrics and /v1/traces; an answer of 503 is tried again."""
    got: dict[str, list[bytes]] = {}
    busy = [True]

    async def take(request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        if request.path == "/in/v1/traces" and busy:
            busy.clear()
            return web.Response(status=503)
        got.setdefault(request.path, []).append(await request.read())
        return web.Response()

    application = web.Application()
    application.router.add_post("/{path:.*}", take)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        async with start_server(otlp=f"http://127.0.0.1:{port}/in"):
            await begun(line, "otlp.spans.ollama_request", "otlp.minutes")
            await store(line, "ollama_request", [HTTP])
            await eventually(lambda: {"/in/v1/traces", "/in/v1/metrics"} <= got.keys() and not busy)
    finally:
        await runner.cleanup()
    (request,) = (ExportTraceServiceRequest.FromString(body) for body in got["/in/v1/traces"])
    assert request.resource_spans[0].scope_spans[0].spans[0].name == "GET"
    assert all(ExportMetricsServiceRequest.FromString(body).resource_metrics for body in got["/in/v1/metrics"])


def _attributes(span: Any) -> list[tuple[str, Any]]:
    return [(each.key, getattr(each.value, each.value.WhichOneof("value"))) for each in span.attributes]
