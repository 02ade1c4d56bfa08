"""GET /trace: the rows of streams and machines as slices on one clock, in bounded memory."""

import json
import weakref
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, Run, lined, make_machine, rows
from tests.integration.server.running import Server
from tests.integration.server.stand_in_agent import MACHINE

from scope_bpf.probes import probe_named
from scope_server.store.reading import columns
from scope_server.store.reading.decoded import schema_of

StartServer = Callable[..., Any]
SINCE = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC)
WINDOW = {"since": SINCE.isoformat(), "until": (SINCE + timedelta(hours=2)).isoformat()}
BEHIND_NS = 250_000_000  # the second machine booted so much later
OTHER = "f" * 32


async def _asked(server: Server, **query: Any) -> bytes:
    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/api/v1/trace", params={**WINDOW, **query}) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return await answer.read()


def _switches(count: int) -> pa.RecordBatch:
    probe = probe_named("sched")
    (stream,) = (stream for stream in probe.streams if stream.name == "switch")
    schema = probe.schema(stream)
    values: dict[str, list[Any]] = {
        field.name: [None if pa.types.is_dictionary(field.type) else 0] * count for field in schema
    }
    values |= {"ktime_ns": [FIRST_KTIME_NS + 10_000 * n for n in range(1, count + 1)], "on_cpu_ns": [5000] * count}
    values |= {"start_ns": [500] * count, "pid": [4711] * count, "tid": [4711] * count, "comm": ["one"] * count}
    return pa.RecordBatch.from_pydict(values, schema=schema)


async def _filled(server: Server) -> None:
    async with lined(server.conninfo) as line:
        calls = rows(101, duration_ns=[100] * 101)
        one = Run()
        await line.send(
            one.batch(1, calls, 108, {("ring", "ring_full"): 7}), one.batch(1, _switches(53), stream="switch")
        )
        later = Run().batch(1, calls, boot_to_utc_ns=BOOT_TO_UTC_NS + BEHIND_NS)
        await line.send(later, machine=make_machine(line.conninfo, OTHER))


async def test_streams_and_machines_are_on_one_clock(start_server: StartServer) -> None:
    """Each row is one slice, timed in UTC, on a thread of its machine; a machine's losses are slices of it."""
    async with start_server() as server:
        await _filled(server)
        packets = proto.Trace.FromString(await _asked(server, streams="syscall,switch")).packet
        begins = [one for one in packets if one.track_event.type == proto.TrackEvent.TYPE_SLICE_BEGIN]
        lost = [one for one in begins if one.track_event.name]
        assert [(one.machine_id, one.track_event.name) for one in lost] == [(0, "7 lost (ring_full)")]
        first = BOOT_TO_UTC_NS + FIRST_KTIME_NS
        for machine, behind_ns in ((0, 0), (1, BEHIND_NS)):
            times = [one.timestamp for one in begins if one.machine_id == machine and not one.track_event.name]
            assert sorted(times) == [first + behind_ns + 1000 * n for n in range(101)]
        tracks = {one.track_descriptor.uuid: one for one in packets if one.HasField("track_descriptor")}
        assert {tracks[one.track_event.track_uuid].machine_id for one in begins if one.machine_id} == {1}
        starts = {one.track_descriptor.process.start_timestamp_ns for one in packets} - {0}
        assert starts == {BOOT_TO_UTC_NS + 500, BOOT_TO_UTC_NS + BEHIND_NS + 500}
        assert sum(len(one.ftrace_events.event) for one in packets) > 53
        names = [one.system_info.machine_name for one in packets if one.HasField("system_info")]
        assert names == ["stand-in", "stand-in"]
        alone = proto.Trace.FromString(await _asked(server, streams="syscall", machine=OTHER)).packet
        assert {one.machine_id for one in alone} == {0}
        assert len([one for one in alone if one.track_event.type == proto.TrackEvent.TYPE_SLICE_BEGIN]) == 101
        few = proto.Trace.FromString(await _asked(server, streams="syscall,switch", where="arg0 < 7", machine=OTHER))
        begins = [one for one in few.packet if one.track_event.type == proto.TrackEvent.TYPE_SLICE_BEGIN]
        assert len(begins) == 7
        known = proto.Trace.FromString(await _asked(server, where="arg0 < 7")).packet
        assert not any(one.ftrace_events.event for one in known), "switches have no arg0"
        status, problem = await server.ask("GET", "trace", params={**WINDOW, "where": "arg9 = 1"})
        assert (status, problem["errors"][0]["parameter"]) == (400, "where")
        both = await _asked(server, streams="syscall,switch", machine=f"{OTHER},{MACHINE}")
        assert {one.machine_id for one in proto.Trace.FromString(both).packet} == {0, 1}


async def test_chrome_json_has_the_same_slices(start_server: StartServer) -> None:
    """The JSON is valid; its slices have the rows' times to the nanosecond, names, processes and arguments."""
    async with start_server() as server:
        await _filled(server)
        found = json.loads(await _asked(server, streams="syscall,switch", format="chrome"))
        since_ns = int(found["otherData"]["since_ns"])
        calls = [one for one in found["traceEvents"] if one.get("cat") == "syscall"]
        assert len(calls) == 202
        times = sorted(since_ns + round(one["ts"] * 1000) for one in calls if one["pid"] == 4711)
        assert times == [BOOT_TO_UTC_NS + FIRST_KTIME_NS + 1000 * n for n in range(101)]
        assert {one["pid"] for one in calls} == {4711, 10_004_711}
        assert {one["dur"] for one in calls} == {0.1}
        assert {one["args"]["arg0"] for one in calls} == {*range(101)}
        on_cpu = [one for one in found["traceEvents"] if one.get("cat") == "switch"]
        assert [one["dur"] for one in on_cpu] == [5.0] * 53
        names = {one["args"]["name"] for one in found["traceEvents"] if one["ph"] == "M"}
        assert {"one", "lost: syscall"} <= names
        assert json.loads(await _asked(server, until=SINCE.isoformat(), since="2020-01-01", format="chrome"))


async def test_hostile_texts_stay_texts(start_server: StartServer) -> None:
    """Names with quotes, control characters and tags are texts in both formats, and the JSON has none of the second."""
    texts = ['"},{"ph":"X', "\x1b[31m", "<script>", "\u202e", "\\", "a\nb"]
    async with start_server() as server, lined(server.conninfo) as line:
        names = pa.array(texts, pa.string()).dictionary_encode()
        await line.send(Run().batch(1, rows(len(texts), name=names, comm=names, duration_ns=[9] * len(texts))))
        data = await _asked(server, streams="syscall", format="chrome")
        assert not any(byte < 32 and byte != 10 for byte in data)
        assert "\u202e" not in data.decode()
        assert {one["name"] for one in json.loads(data)["traceEvents"] if one["ph"] == "X"} == {*texts}
        packets = proto.Trace.FromString(await _asked(server, streams="syscall")).packet
        interned = {name.name for one in packets for name in one.interned_data.event_names}
        assert {*texts} <= interned


@pytest.mark.parametrize(("form", "count"), [("perfetto", 1_000_000), ("chrome", 100_000)])
async def test_a_million_rows_are_never_held(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, form: str, count: int
) -> None:
    """Of a million rows, the server holds two batches at most; every row is drawn."""
    batches: list[weakref.ref[pa.RecordBatch]] = []
    most = 0

    forks = rows(columns.MOST_ROWS)
    of_row = [pa.array([text] * len(forks)).dictionary_encode() for text in ("m", "host", "task")]
    first_ns = pa.array(range(len(forks)), pa.int64())

    async def many(_: columns.Columns, wanted: Any) -> AsyncGenerator[pa.RecordBatch, None]:
        nonlocal most
        schema = schema_of(wanted.table)
        for number in range(count // columns.MOST_ROWS + 1):
            times = pc.add(first_ns, BOOT_TO_UTC_NS + FIRST_KTIME_NS + number * 10**8).cast(schema.field("time").type)
            its = [forks[name] if name in forks.schema.names else forks["tid"] for name in wanted.table.schema.names]
            its = [column.cast(field.type) for column, field in zip(its, wanted.table.schema, strict=True)]
            batch = pa.RecordBatch.from_arrays([times, *of_row, *its], schema=schema)
            batches.append(weakref.ref(batch))
            most = max(most, sum(each().num_rows for each in batches if each() is not None))  # type: ignore[union-attr]
            yield batch

    monkeypatch.setattr(columns.Columns, "batches", many)
    begins = 0
    async with (
        start_server() as server,
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/api/v1/trace?streams=fork&format={form}") as answer,
    ):
        async for piece in answer.content.iter_chunked(1 << 20):
            begins += piece.count(b'"ph":"i"') if form == "chrome" else len(piece)
    assert most <= 2 * columns.MOST_ROWS
    assert begins >= count * (0.999 if form == "chrome" else 20)  # a cut in the middle of a mark misses it


async def test_what_cannot_be_drawn(server: Server) -> None:
    """A stream without a timeline is refused by name; nothing recorded is an empty trace."""
    status, problem = await server.ask("GET", "trace?streams=syscall_summary")
    assert (status, problem["errors"][0]["parameter"]) == (400, "streams")
    assert await _asked(server) == b""
