"""GET /export: every row once, with its types and texts, in any format, in bounded memory."""

import asyncio
import csv
import io
import json
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, Run, lined, make_machine, rows, stacks
from tests.integration.server.running import Server

from scope_catalogue.catalogue import streams
from scope_server.store.reading import columns, reach

StartServer = Callable[..., Any]
SINCE = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC)
WINDOW = {"since": SINCE.isoformat(), "until": (SINCE + timedelta(hours=2)).isoformat()}
HOSTILE = ("=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", '"; DROP', "a,b\r\nc", "\x1b[31m", "\uff1d1", "<b>", "plain")


async def export(server: Server, stream: str = "syscall", lost: str = "", **query: Any) -> tuple[bytes, str]:
    """The file, and its media type. What was lost is told as a header."""
    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/api/v1/export/{stream}", params={**WINDOW, **query}) as answer,
    ):
        assert answer.status == 200, await answer.text()
        assert f'filename="{stream}.' in answer.headers["Content-Disposition"]
        assert answer.headers["X-Scope-Lost"] == lost
        return await answer.read(), answer.content_type


def table_of(data: bytes, form: str) -> pa.Table:
    """The rows of a file in Arrow or Parquet."""
    return pa.ipc.open_stream(data).read_all() if form == "arrow" else pq.ParquetFile(io.BytesIO(data)).read()


@pytest.mark.parametrize("most", [columns.MOST_ROWS, 100])
async def test_every_row_comes_once_as_it_was_sent(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Rows have the types, values and texts that were sent, each once, in order of time, however large a batch is."""
    monkeypatch.setattr(columns, "MOST_ROWS", most)
    sent = [rows(307, 307 * number, pid=4711 + number) for number in range(3)]
    same_time = rows(211, 1000, ktime_ns=[FIRST_KTIME_NS] * 211)  # more rows than a batch, all of one time
    async with start_server() as server, lined(server.conninfo) as line:
        one, two = Run(), Run()
        await line.send(*[one.batch(number + 1, batch) for number, batch in enumerate(sent)], one.batch(4, same_time))
        await line.send(two.batch(1, rows(97, 2000)), machine=make_machine(line.conninfo, "f" * 32))
        expected = pa.Table.from_batches([*sent, same_time, rows(97, 2000)])
        for form in ("arrow", "parquet"):
            data, _ = await export(server, format=form)
            found = table_of(data, form)
            assert found.column_names == ["time", "machine_id", "hostname", "task_id", *expected.column_names]
            times = found["time"].to_pylist()
            assert times == sorted(times)
            own = found.select(expected.column_names)
            assert own.cast(expected.schema).schema.types == expected.schema.types
            assert sorted(map(str, own.to_pylist())) == sorted(map(str, expected.to_pylist()))
            assert {*found["task_id"].to_pylist()} == {str(one.task_id), str(two.task_id)}
        chosen = table_of((await export(server, format="arrow", columns="ret,comm", task=str(two.task_id)))[0], "arrow")
        assert (chosen.column_names, chosen.num_rows) == (["time", "ret", "comm"], 97)
        few = table_of((await export(server, format="arrow", where="pid = 4712 and ret < -5"))[0], "arrow")
        assert few.num_rows == sum((ret or 0) < -5 for ret in sent[1]["ret"].to_pylist())


async def test_many_blocks_of_one_time(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of many machines begin at the same time: reading goes on behind them, however many they are."""
    monkeypatch.setattr(reach, "_MOST_BLOCKS", 5)
    monkeypatch.setattr(columns, "MOST_ROWS", 50)
    async with start_server() as server, lined(server.conninfo) as line:
        for _ in range(17):
            await line.send(Run().batch(1, rows(31, ktime_ns=[FIRST_KTIME_NS + n * 10**9 for n in range(31)])))
        await line.send(*[Run().batch(1, rows(7, 10_000 * (number + 1))) for number in range(9)])
        found = table_of((await export(server, format="arrow"))[0], "arrow")
        assert found.num_rows == 17 * 31 + 9 * 7


async def test_text_formats_have_the_same_rows(start_server: StartServer) -> None:
    """NDJSON has a JSON object a line, and lines about losses; CSV has a line a row after its head, as RFC 4180."""
    async with start_server() as server, lined(server.conninfo) as line:
        await line.send(Run().batch(1, rows(101), 108, {("ring", "ring_full"): 7}))
        data, media = await export(server, format="ndjson", lost="7 (ring_full)")
        assert media == "application/x-ndjson"
        told = [json.loads(each) for each in data.splitlines()]
        assert told.pop() == {"type": "loss", "stream": "syscall", "reason": "ring_full", "count": 7}
        assert [row["arg0"] for row in told] == list(range(101))
        assert told[0]["time"] == f"{SINCE + timedelta(seconds=1):%FT%T}.000000000Z"
        assert told[0]["duration_ns"] == (1 << 64) - 1
        data, media = await export(server, format="csv", columns="arg0,comm,ret,duration_ns", lost="7 (ring_full)")
        assert media == "text/csv"
        assert data.endswith(b"\r\n")
        lines = list(csv.reader(io.StringIO(data.decode(), newline="")))
        assert lines[0] == ["time", "arg0", "comm", "ret", "duration_ns"]
        assert [(row["arg0"], row["ret"]) for row in told] == [
            (int(arg0), int(ret) if ret else None) for _, arg0, _, ret, _ in lines[1:]
        ]
        assert (await export(server, format="csv", until=SINCE.isoformat(), since="2020-01-01"))[0].count(b"\r\n") == 1


@pytest.mark.parametrize("form", ["ndjson", "csv", "arrow", "parquet"])
async def test_hostile_texts_do_no_harm(start_server: StartServer, form: str) -> None:
    """Texts keep their meaning; in NDJSON and CSV no control character is left, and in CSV no cell is a formula."""
    async with start_server() as server, lined(server.conninfo) as line:
        count = len(HOSTILE)
        names = pa.array(HOSTILE, pa.string()).dictionary_encode()
        batch = rows(count, comm=names, path=names, args=names)
        of_stacks = stacks([f"{text};end" for text in HOSTILE])
        await line.send(Run().batch(1, batch), Run().batch(1, of_stacks, stream="cuda_live"))
        data, _ = await export(server, format=form, columns="comm,path,ret")
        if form in ("arrow", "parquet"):
            assert table_of(data, form)["path"].to_pylist() == list(HOSTILE)
            return
        assert not any(byte < 32 and byte not in b"\r\n" for byte in data)
        if form == "ndjson":
            assert [json.loads(each)["path"] for each in data.splitlines()] == list(HOSTILE)
            return
        lines = list(csv.reader(io.StringIO(data.decode(), newline="")))[1:]
        assert len(lines) == count
        for text, (_, comm, path, _) in zip(HOSTILE, lines, strict=True):
            assert comm == path
            assert path[:1] not in ("=", "+", "-", "@", "\uff1d")
            assert path.removeprefix("'") == text.encode("unicode_escape").decode() or path.removeprefix("'") == text
        assert lines[3][3] == "-3"  # a number stays one
        data, _ = await export(server, "cuda_live", format="csv", columns="stack")
        assert all(cell[:1] != "=" for _, cell in csv.reader(io.StringIO(data.decode(), newline="")))


async def test_every_stream_can_be_exported(server: Server) -> None:
    """Each stream has a file in each format, also without rows; a wrong column or format is refused."""
    for stream in streams():
        for form in ("ndjson", "csv", "arrow", "parquet"):
            data, _ = await export(server, stream, format=form)
            assert form == "ndjson" or data
    for asked, parameter in (("columns=nonsense", "columns"), ("columns=ret,ret", "columns"), ("format=xls", "format")):
        status, problem = await server.ask("GET", f"export/syscall?{asked}")
        assert (status, problem["errors"][0]["parameter"]) == (400, parameter)


async def test_a_slow_reader_holds_little_and_a_broken_one_ends_the_query(start_server: StartServer) -> None:
    """While a client does not read, the server holds a batch or two; once it is gone, nothing is read for it."""
    async with start_server() as server, lined(server.conninfo) as line:
        run = Run()
        for number in range(20):
            await line.send(run.batch(number + 1, rows(8192, 8192 * number)))
        read = 0
        real = columns.Columns._read

        def counted(self: Any, *given: Any) -> Any:
            nonlocal read
            batch, last = real(self, *given)
            read += batch.num_rows
            return batch, last

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(columns.Columns, "_read", counted)
            reader, writer = await asyncio.open_unix_connection(str(server.socket), limit=1 << 16)
            path = f"/api/v1/export/syscall?since={WINDOW['since'].replace('+', '%2B')}"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert b"200" in await reader.readline()
            tracemalloc.start()
            seen = -1
            while seen != read:
                seen = read
                await asyncio.sleep(1)
            held = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            assert 0 < read <= 2 * columns.MOST_ROWS
            assert held < 16 << 20
            writer.transport.abort()
            await asyncio.sleep(1)
            assert read <= 3 * columns.MOST_ROWS
        data, _ = await export(server, format="arrow", columns="arg0")
        assert sorted(table_of(data, "arrow")["arg0"].to_pylist()) == list(range(20 * 8192))
