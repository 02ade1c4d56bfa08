"""Totals per minute and metrics arrive in a real InfluxDB; what it refuses is counted."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.integration.server.api.recorded import store
from tests.integration.server.exports.influxdb_server import PASSWORD, USER, InfluxServer
from tests.integration.server.exports.test_otlp import Start, begun, exported
from tests.integration.server.records import Line
from tests.integration.server.running import until
from tests.ports import free_port

from scope_server.exports.contract import Kind, Measurement, Point
from scope_server.exports.http import Http
from scope_server.exports.influxdb.address import authorization, influxdb_address
from scope_server.exports.influxdb.target import InfluxDb

HOSTILE = [
    "plain",
    "a b",
    "a,b=c",
    "ends in \\",
    "\\",
    "a\\,b",
    "a\\ b=\\",
    "quotes \"' both",
    "new\nline",
    "tab\t",
    "#comment",
    "\x1b[31m",
    "名前",
    "=",
    ",",
    "x" * 200,
]


@pytest.fixture(scope="module")
def influxdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InfluxServer]:
    with InfluxServer(tmp_path_factory.mktemp("influxdb"), free_port()) as server:
        yield server


@pytest.fixture
async def target(influxdb: InfluxServer) -> AsyncIterator[InfluxDb]:
    url = influxdb_address(influxdb.url)
    made = InfluxDb(Http(authorization(url, f"{USER}:{PASSWORD}"), None), url)
    yield made
    await made.close()


def _point(measurement: str, labels: dict[str, str], at: int = 1, **values: float) -> Point:
    of = Measurement(measurement, "", Kind.GAUGE)
    return Point(of, tuple(labels.items()), values or {"value": 1.5}, at * 10**9, 0)


async def test_hostile_texts_stay_texts(influxdb: InfluxServer, target: InfluxDb) -> None:
    """Each label comes back as it was, but for control characters, which are escaped, and a backslash at the end."""
    points = [_point("hostile text", {"comm": text, "last": "end"}, at=number) for number, text in enumerate(HOSTILE)]
    assert await target.send(points) == 0
    rows = await asyncio.to_thread(influxdb.rows, 'SELECT * FROM "hostile text"')
    found = {row["time"] // 10**9: row for row in rows}
    assert len(found) == len(HOSTILE)
    assert {row["last"] for row in rows} == {"end"}
    for number, text in enumerate(HOSTILE):
        escaped = text.replace("\n", "\\n").replace("\t", "\\t").replace("\x1b", "\\x1b")
        assert found[number]["comm"] == (f"{escaped} " if escaped.endswith("\\") else escaped)


async def test_what_is_refused_is_counted(influxdb: InfluxServer, target: InfluxDb) -> None:
    """A field of another type than before is refused; the other points of the request are stored."""
    assert await target.send([_point("typed", {}, value=1)]) == 0
    mixed = [_point("typed", {}, at=2, value=2.5), _point("typed", {}, at=3, value=3), _point("good", {}, at=4)]
    assert await target.send(mixed) == 1
    assert [row["value"] for row in await asyncio.to_thread(influxdb.rows, "SELECT value FROM typed")] == [1, 3]
    assert await asyncio.to_thread(influxdb.rows, "SELECT value FROM good")
    assert await target.send([_point("nothing", {}, value=float("nan"))]) == 0


async def test_minutes_are_those_of_sql(
    start_server: Start, line: Line, influxdb: InfluxServer, tmp_path: Path
) -> None:
    """Totals are those of scope.STREAM_minutes; rows that come later change them; beyond the bound is `other`."""
    secret = tmp_path / "secret"
    secret.write_text(f"{USER}:{PASSWORD}\n")
    settings = {"influxdb": influxdb.url, "influxdb_token_file": secret, "export_series": 3}
    paths = [f"/{number}" for number in range(7)]
    async with start_server(**settings) as server:
        await begun(line, "influxdb.minutes")

        async def sums() -> dict[str, int]:
            found = await asyncio.to_thread(influxdb.rows, "SELECT count, path FROM ollama_request")
            totals: dict[str, int] = {}
            for row in found:
                totals[row["path"]] = totals.get(row["path"], 0) + row["count"]
            return totals

        await store(line, "ollama_request", [{"path": path, "comm": "a b"} for path in paths for _ in range(5)])
        first = await until(sums, lambda found: sum(found.values()) == 35, 240)
        assert len(first) == 4
        assert first["other"] == 20
        await store(line, "ollama_request", [{"path": path, "comm": "a b"} for path in paths])
        again = await until(sums, lambda found: sum(found.values()) == 42, 240)
        assert again == {name: 24 if name == "other" else 6 for name in first}, "each minute was written anew, whole"
        stored = "SELECT last(value) FROM scope_server_stored_events_total"
        await until(lambda: asyncio.to_thread(influxdb.rows, stored), bool, 240)
        assert await exported(server, "refused_items_total", "influxdb.minutes") == 0


async def test_it_goes_on_after_influxdb_was_away(start_server: Start, line: Line, tmp_path: Path, port: int) -> None:
    """What could not be written while InfluxDB was away is written when it is back."""
    secret = tmp_path / "secret"
    secret.write_text(f"{USER}:{PASSWORD}")
    folder = tmp_path / "influxdb"
    folder.mkdir()
    with InfluxServer(folder, port) as influxdb:
        async with start_server(influxdb=influxdb.url, influxdb_token_file=secret) as server:
            await begun(line, "influxdb.minutes")
            await asyncio.to_thread(influxdb.stop)
            await store(line, "ollama_request", [{"path": "/api/chat", "comm": "ollama"}] * 5)
            await until(lambda: exported(server, "failures_total", "influxdb.minutes"), lambda count: count >= 1, 240)
            await asyncio.to_thread(influxdb.start)
            asked = "SELECT sum(count) FROM ollama_request"
            found = await until(lambda: asyncio.to_thread(influxdb.rows, asked), bool, 240)
            assert found[0]["sum"] == 5


async def test_influxdb_2_gets_the_token(start_server: Start, line: Line, tmp_path: Path, port: int) -> None:
    """Lines go to /api/v2/write with organisation, bucket and token; a wrong token is tried again, not counted lost."""
    secret = tmp_path / "token"
    secret.write_text("t0ken\n")
    got: list[str] = []
    answers = [401, 429]

    async def write(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Token t0ken"
        assert dict(request.query) == {"org": "lab", "bucket": "scope", "precision": "ns"}
        if answers:
            return web.json_response({"code": "as told", "message": "no"}, status=answers.pop(0))
        got.extend((await request.text()).splitlines())
        return web.Response(status=204)

    application = web.Application()
    application.router.add_post("/api/v2/write", write)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    url = f"http://127.0.0.1:{port}/api/v2/write?org=lab&bucket=scope"
    try:
        async with start_server(influxdb=url, influxdb_token_file=secret) as server:
            await begun(line, "influxdb.minutes")
            await store(line, "ollama_request", [{"path": "/api/chat", "comm": "ollama"}] * 5)

            async def lines() -> list[str]:
                return [one for one in got if one.startswith("ollama_request,")]

            (found,) = await until(lines, bool, 240)
            assert await exported(server, "refused_items_total", "influxdb.minutes") == 0
    finally:
        await runner.cleanup()
    assert found.startswith("ollama_request,comm=ollama,hostname=stand-in,machine_id=0123456789abcdef0123456789abcdef,")
    assert " count=5i,failed=0i,sum=0i " in found
