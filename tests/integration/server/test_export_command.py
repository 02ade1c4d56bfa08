"""`scope export` with a real server: files by their ending, several streams, and no half of a file."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from tests.integration.server.records import Run, lined, rows, stacks
from tests.integration.server.running import Server

StartServer = Callable[..., Any]
SCOPE = (sys.executable, "-m", "scope_cli.main")


async def exported(server: Server, *words: str | Path) -> tuple[int | None, str]:
    """Runs `scope export`; returns status and remarks."""
    its = {"SCOPE_URL": f"http://{server.http}", "SCOPE_TOKEN_FILE": str(server.token)}
    process = await asyncio.create_subprocess_exec(
        *(*SCOPE, "export", *map(str, words)), env={**os.environ, **its}, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    return process.returncode, said.decode()


async def test_rows_become_files(start_server: StartServer, tmp_path: Path) -> None:
    """The ending tells the format; several streams make a file each; filters and times select rows."""
    async with start_server() as server, lined(server.conninfo) as line:
        run = Run()
        await line.send(
            run.batch(1, rows(101), 108, {("ring", "ring_full"): 7}),
            run.batch(1, stacks(["main;a"]), stream="cuda_live"),
        )
        status, said = await exported(server, "syscall", "--since", "-3h", "-o", tmp_path / "a.parquet")
        assert (status, "a.parquet" in said) == (0, True), said
        assert pq.ParquetFile(tmp_path / "a.parquet").read().num_rows == 101
        words = ("--since", "-3h", "-o", tmp_path / "b.csv")
        status, said = await exported(server, "syscall", "cuda_live", *words)
        assert (status, said.count("; lost: 7 (ring_full)\n")) == (0, 1), said
        assert (tmp_path / "b.syscall.csv").read_bytes().count(b"\r\n") == 102
        assert (tmp_path / "b.cuda_live.csv").read_bytes().count(b"\r\n") == 2
        few = ("--since", "-3h", "--where", "arg0 < 7", "--columns", "ret", "--format", "csv", "-o", tmp_path / "few")
        assert (await exported(server, "syscall", *few))[0] == 0
        assert (tmp_path / "few").read_bytes().count(b"\r\n") == 8
        status, said = await exported(server, "syscall", "--where", "nonsense = 1", "-o", tmp_path / "c.csv")
        assert (status, "nonsense" in said) == (2, True)
        assert sorted(path.name for path in tmp_path.glob("c*")) == []
        assert (await exported(server, "syscall", "--since", "-3h", "--perfetto", tmp_path / "t.perfetto"))[0] == 0
        packets = proto.Trace.FromString((tmp_path / "t.perfetto").read_bytes()).packet
        assert any(one.HasField("track_event") for one in packets)
        drawn = ("--since", "-3h", "--where", "arg0 < 7", "--perfetto", tmp_path / "few.perfetto")
        assert (await exported(server, "syscall", *drawn))[0] == 0
        assert (tmp_path / "few.perfetto").stat().st_size < (tmp_path / "t.perfetto").stat().st_size // 2
        for wrong in (("-o", tmp_path / "d"), ("syscall", "--columns", "ret", "--perfetto", tmp_path / "d")):
            assert (await exported(server, *wrong))[0] == 2
