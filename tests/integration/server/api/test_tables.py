"""Answers with rows as files: aggregates, slowest rows, states, losses, differences and others, in every format."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq
from tests.integration.server.records import BOOT_TO_UTC_NS, Run, lined, rows, stacks
from tests.integration.server.running import Server

StartServer = Callable[..., Any]
SINCE = datetime.fromtimestamp(BOOT_TO_UTC_NS // 10**9, UTC)
WINDOW = {"since": SINCE.isoformat(), "until": (SINCE + timedelta(hours=2)).isoformat()}
FORMULA = "=1+1"


async def _file(server: Server, path: str, form: str, **query: str) -> tuple[bytes, str]:
    """A file and its name."""
    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/api/v1/{path}", params={**query, "format": form}) as answer,
    ):
        assert answer.status == 200, await answer.text()
        assert answer.content_type.endswith({"arrow": "arrow.stream"}.get(form, form))
        return await answer.read(), answer.headers["Content-Disposition"]


def _rows(data: bytes, form: str) -> list[dict[str, Any]]:
    """The rows of a file."""
    if form == "csv":
        return list(csv.DictReader(io.StringIO(data.decode())))
    if form == "ndjson":
        return [row for row in map(json.loads, data.splitlines()) if row["type"] != "loss"]
    return list(_table(data, form).to_pylist())


def _table(data: bytes, form: str) -> pa.Table:
    return pa.ipc.open_stream(data).read_all() if form == "arrow" else pq.ParquetFile(io.BytesIO(data)).read()


def _plain(value: Any) -> str:
    """A value as all formats can have it; times without what they have below a microsecond."""
    if isinstance(value, str) and value[4:5] == "-" and value[10:11] == "T":
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return "" if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _same(found: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    for name, value in told.items():
        got = found[name]
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert float(got) == float(value), name
        elif isinstance(value, bool):
            assert str(got).lower() == str(value).lower()
        else:
            assert _plain(got).removeprefix("'") == _plain(value), name


async def test_rows_of_answers_as_files(start_server: StartServer) -> None:
    """Each format has the rows of the JSON answer, with its values; texts are no formulas in CSV; losses are told."""
    held = stacks(["main;small", "main;large"], live_count=[1, 3], live_bytes=[100, 700])
    async with start_server() as server, lined(server.conninfo) as line:
        run = Run()
        told = rows(101, comm=[FORMULA] * 101, name=["open"] * 7 + ["read"] * 94)
        await line.send(run.start(), run.batch(1, told, 108, {("ring", "ring_full"): 7}))
        await line.send(run.batch(1, held, stream="cuda_live"))
        mark = {"text": "epoch 1", "labels": {"epoch": "1"}}
        assert (await server.ask("POST", "annotations", json=mark))[0] == 201
        groups = (await server.get("aggregates", "syscall", **WINDOW, by="comm,name", cells="count,p99(duration_ns)"))[
            "groups"
        ]
        series = (await server.get("aggregates", "syscall", **WINDOW, every="1m"))["groups"][0]["points"]
        slow = (await server.get("slowest", "syscall", **WINDOW))["slowest"]
        audit = (await server.get("audit"))["entries"]
        few = {**WINDOW, "where": "arg0 < 7"}
        differing = await server.get("compare", "syscall", **few)
        shares = [
            {"of": "value", "column": each["column"], "sure": each["sure"], **one}
            for each in differing["columns"]
            for one in each["values"]
        ]
        expected: tuple[tuple[str, dict[str, str], list[dict[str, Any]]], ...] = (
            (
                "aggregates/syscall",
                {**WINDOW, "by": "comm,name", "cells": "count,p99(duration_ns)"},
                [{**group["key"], **group["values"]} for group in groups],
            ),
            (
                "aggregates/syscall",
                {**WINDOW, "every": "1m"},
                [{"time": point["time"], **point["values"]} for point in series],
            ),
            ("slowest/syscall", WINDOW, [each["row"] | {"longer_ns": each["longer_ns"]} for each in slow]),
            ("states/cuda_live", {}, (await server.get("states", "cuda_live"))["groups"]),
            ("losses", WINDOW, (await server.get("losses", **WINDOW))["losses"]),
            ("audit", {}, audit),
            ("annotations", {}, (await server.get("annotations"))["annotations"]),
        )
        for path, query, its in expected:
            assert its, path
            for form in ("csv", "ndjson", "arrow", "parquet"):
                data, name = await _file(server, path, form, **query)
                assert name == f'attachment; filename="{path.rpartition("/")[2]}.{form}"'
                found = _rows(data, form)
                assert len(found) == len(its), (path, form)
                for one, other in zip(found, its, strict=True):
                    _same(one, other)
        assert shares
        for form in ("csv", "ndjson", "arrow", "parquet"):
            data, _ = await _file(server, "compare/syscall", form, **few)
            found = _rows(data, form)
            for one, told_of in zip((row for row in found if row["of"] == "value"), shares, strict=True):
                _same(one, told_of)
            quantiles = [row for row in found if row["of"] == "quantile"]
            assert len(quantiles) == 3 * sum(each["numbers"] is not None for each in differing["columns"])
        data, _ = await _file(server, "aggregates/syscall", "csv", **WINDOW, by="comm")
        assert f"'{FORMULA}" in data.decode()
        data, _ = await _file(server, "aggregates/syscall", "arrow", **WINDOW, by="comm")
        assert _table(data, "arrow").schema.metadata[b"lost"] == b"7 (ring_full)"
        later = {"since": WINDOW["until"], "until": (SINCE + timedelta(hours=3)).isoformat()}
        for form in ("csv", "parquet"):  # without rows, there are still columns
            data, _ = await _file(server, "losses", form, **later)
            names = data.decode().strip().split(",") if form == "csv" else _table(data, form).column_names
            assert names[:4] == ["stream", "place", "reason", "count"]
            for path, query, columns in (
                ("aggregates/syscall", {"by": "machine,comm", "every": "1m"}, "time machine_id hostname comm count"),
                ("slowest/syscall", {}, "time machine_id hostname task_id ktime_ns"),
                ("compare/syscall", {"where": "ret < 0"}, "of column value inside outside"),
            ):
                data, _ = await _file(server, path, form, **later, **query)
                names = data.decode().strip().split(",") if form == "csv" else _table(data, form).column_names
                assert names[:5] == columns.split(), path
            data, _ = await _file(server, "states/cuda_live", form, pid="1")
            names = data.decode().strip().split(",") if form == "csv" else _table(data, form).column_names
            assert names[:4] == ["machine_id", "hostname", "time", "pid"]
