"""The streams as the API tells them."""

import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from tests.integration.server.running import Server

from scope_catalogue.catalogue import streams

StartServer = Callable[..., Any]


async def _as_sent(server: Server, path: str, coding: str) -> tuple[bytes, Mapping[str, str]]:
    """Body and headers of an answer to a caller that takes these codings, as they travel."""
    async with (
        aiohttp.ClientSession(connector=server.local(), auto_decompress=False) as session,
        session.get(f"http://{server.http}/api/v1/{path}", headers={"Accept-Encoding": coding}) as answer,
    ):
        return await answer.read(), answer.headers


async def test_every_stream_is_told_whole(start_server: StartServer) -> None:
    """Each stream of the catalogue is told with all columns and what else a filter takes; groups, measured
    columns and flame graphs as declared. A caller that takes it gets the long answer compressed."""
    async with start_server() as server:
        answer = await server.get("streams")
        plain, compressed = [await _as_sent(server, "streams", coding) for coding in ("identity", "gzip, br")]
        short, _ = await _as_sent(server, "templates", "gzip")
    assert plain[1].get("Content-Encoding") is None and short[:1] != b"\x1f"
    assert (compressed[1]["Content-Encoding"], compressed[1]["Vary"]) == ("gzip", "Accept-Encoding")
    assert json.loads(gzip.decompress(compressed[0])) == json.loads(plain[0]) == answer
    assert len(compressed[0]) < len(plain[0]) / 5
    told = {stream["name"]: stream for stream in answer["streams"]}
    assert list(told) == sorted(streams())
    for name, stream in streams().items():
        named = [column["name"] for part in ("columns", "of_process") for column in told[name][part]]
        assert named == list(stream.types)  # what a filter can name
        assert [column["name"] for column in told[name]["columns"]] == [column.name for column in stream.columns]
        assert (told[name]["flame"] is None) == (stream.shown.flame is None)
        if stream.rollup:
            assert told[name]["rollup"]["by"] == list(stream.rollup.by)
    assert told["syscall"]["rollup"]["measured"] == "duration_ns"
    units = {column["name"]: column["unit"] for column in told["syscall"]["columns"]}
    assert units["duration_ns"] == "ns"
    codes = {column["name"]: column["codes"] for column in told["syscall"]["columns"]}
    assert (codes["ret"], codes["pid"]) == ("error", None)
    assert {"-ENOENT", "-EAGAIN", "-EWOULDBLOCK"} <= {*answer["codes"]["error"]}
    assert "SIGKILL" in answer["codes"]["signal"]
