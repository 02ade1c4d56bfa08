"""The streams as the API tells them."""

from collections.abc import Callable
from typing import Any

from scope_catalogue.catalogue import streams

StartServer = Callable[..., Any]


async def test_every_stream_is_told_whole(start_server: StartServer) -> None:
    """Each stream of the catalogue is told with all columns and what else a filter takes; groups, measured
    columns and flame graphs as declared."""
    async with start_server() as server:
        answer = await server.get("streams")
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
