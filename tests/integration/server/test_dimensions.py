"""Entries that rows refer to: texts of any length, stacks of frames, described processes; no wasted keys; new kinds."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.keeping import ago, retain, sweep
from tests.integration.server.records import REFUSED, STORED, Line, Run, lined, rows, stacks

from scope_catalogue.catalogue import streams
from scope_catalogue.shown import Rollup
from scope_proto.scope.v1.record_pb2 import Process
from scope_server.store.dimensions import declared
from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.schema.tables import Tables
from scope_server.store.writing import entries

KEYS = "SELECT coalesce(max(id), 0) FROM store.{}"


def _incompressible(length: int, start: int = 0) -> str:
    """A text of so many characters; it hardly compresses."""
    words = (f"{n * 2654435761 % (1 << 32):08x}" for n in range(start, start + length // 8 + 1))
    return "".join(words)[:length]


@pytest.mark.parametrize("length", [2_800, 53_000, 500_000])
async def test_texts_of_any_length_are_names(line: Line, length: int) -> None:
    """A name that is too long for an index entry is stored once, and queries find it."""
    long, other = _incompressible(length), _incompressible(length, 1)
    run = Run()
    answers = await line.send(
        run.batch(1, rows(101, comm=[long] * 101)),
        run.batch(2, rows(103, 101, comm=[other, "short", long] * 34 + [other])),
    )
    assert [answer.verdict for answer in answers] == [STORED] * 2
    assert line.query("SELECT count(*) FROM scope.syscall WHERE comm = %s", long) == [(101 + 34,)]
    assert line.query("SELECT count(*) FROM store.names WHERE length(text) = %s", length) == [(2,)]


async def test_rows_of_no_process_stand_beside_others(line: Line) -> None:
    """Rows without a process have no pid and no start time, also if their batch has rows with a process."""
    nobodys: dict[str, Any] = {name: [None] * 5 for name in ("start_ns", "tid", "uid", "cgroup_id", "comm")}
    alone = rows(5, **nobodys)
    place = alone.schema.get_field_index("pid")
    alone = alone.set_column(place, alone.schema.field(place), pa.nulls(5, pa.int32()))
    both = pa.Table.from_batches([rows(7, 5), alone])
    mixed = both.unify_dictionaries().combine_chunks().to_batches()[0]
    answers = await line.send((run := Run()).batch(1, alone), run.batch(2, mixed))
    assert [answer.verdict for answer in answers] == [STORED] * 2
    counted = "SELECT pid, start_ns, tid, uid, comm IS NULL, count(*) FROM scope.syscall GROUP BY 1, 2, 3, 4, 5"
    assert (None, None, None, None, True, 10) in line.query(counted)
    assert line.query("SELECT count(*) FROM scope.syscall WHERE pid = 4711 AND start_ns = 500") == [(7,)]


@pytest.mark.parametrize("frames", [1, 600, 6_000])
async def test_stacks_are_kept_as_frames(line: Line, frames: int) -> None:
    """A stack's text is unchanged when read; frames that stacks share are stored once."""
    names = [f"frame {n} {_incompressible(80, 11 * n)}" for n in range(frames)]
    deep, same, alone = ";".join(names), ";".join([*names[:-1], "leaf"]), "main"
    batch = Run().batch(1, stacks([deep, None, same, alone, deep, ""]), stream="cuda_live")
    assert [answer.verdict for answer in await line.send(batch)] == [STORED]
    found = [stack for (stack,) in line.query("SELECT stack FROM scope.cuda_live ORDER BY ordinal")]
    assert found == [deep, None, same, alone, deep, ""]
    assert line.query("SELECT count(*) FROM store.stacks") == [(4,)]
    assert line.query("SELECT count(*) FROM store.frames") == [(frames + 3,)]
    assert line.query("SELECT pg_typeof(stack)::text FROM fresh.cuda_live LIMIT 1") == [("bigint[]",)]


async def test_a_group_that_fails_again_and_again_burns_no_keys(line: Line) -> None:
    """A group that fails is halved and retried many times, but each new entry draws one key."""
    line.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON fresh.syscall FOR EACH ROW WHEN (NEW.arg0 && '{13, 1013, 2013, 3013}')"
        " EXECUTE FUNCTION refuse()"
    )
    run = Run()
    batches = [
        run.batch(
            n + 1,
            rows(
                100,
                100 * n,
                start_ns=range(10**6 + 100 * n, 10**6 + 100 * n + 100),
                comm=[f"comm {n} {k}" for k in range(100)],
            ),
        )
        for n in range(40)
    ]
    answers = await line.send(*batches)
    assert [answer.verdict for answer in answers].count(REFUSED) == 4
    assert line.query("SELECT count(*) FROM store.quarantine") == [(4,)]
    assert line.query(KEYS.format("processes")) == [(4000,)]
    assert line.query(KEYS.format("names")) == [(4001,)]
    assert line.query("SELECT last_value FROM store.batch_ids")[0][0] <= 50
    for sequence, count in (("processes_id_seq", 4000), ("text_ids", 4001)):
        assert line.query(f"SELECT last_value FROM store.{sequence}") == [(count,)]


async def test_what_was_forgotten_is_found_again(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that have left a writer's small cache are looked up again, without duplicates."""
    monkeypatch.setattr(entries, "_REMEMBERED", 8)
    for n in (0, 1, 2, 0, 1, 2):
        names, starts = [f"{n} {k}" for k in range(50)], range(1000 * n, 1000 * n + 50)
        (answer,) = await line.send(Run().batch(1, rows(50, start_ns=starts, comm=names)))
        assert answer.verdict == STORED
    distinct = "SELECT count(*), count(DISTINCT comm), count(DISTINCT start_ns) FROM scope.syscall"
    assert line.query(distinct) == [(300, 150, 150)]
    assert line.query(KEYS.format("processes")) == [(150,)]


def _process(**facts: Any) -> Process:
    return Process(pid=4711, start_ns=500, **facts)


async def _described(line: Line, run: Run, sequence: int, process: Process, after_ns: int = 0) -> Mapping[str, Any]:
    batch = run.batch(sequence, rows(3, 3 * sequence))
    batch.batch.processes.append(process)
    batch.batch.last_ktime_ns += after_ns
    assert [answer.verdict for answer in await line.send(batch)] == [STORED]
    columns = ("parent_pid", "exe", "cmdline", "cgroup", "container", "image", "namespace", "pod", "unit")
    (row,) = line.query(f"SELECT {', '.join(columns)} FROM scope.processes WHERE pid = 4711")
    return dict(zip(columns, row, strict=True))


async def test_processes_are_described(line: Line) -> None:
    """A description adds new facts and keeps known ones; an exec replaces them; a late description changes nothing."""
    run = Run()
    nothing = dict.fromkeys(("parent_pid", "cmdline", "cgroup", "container", "image", "namespace", "pod", "unit"))
    assert await _described(line, run, 1, _process(exe="/bin/sh")) == nothing | {"exe": "/bin/sh"}
    full = _process(parent_pid=1, cmdline=["sh", "-c", 'a "b" {c}', ""], cgroup="/user", unit="session-1.scope")
    known = nothing | {
        "parent_pid": 1,
        "exe": "/bin/sh",
        "cmdline": ["sh", "-c", 'a "b" {c}', ""],
        "cgroup": "/user",
        "unit": "session-1.scope",
    }
    assert await _described(line, run, 2, full) == known
    assert await _described(line, run, 3, _process()) == known
    after_exec = known | {"exe": "/bin/python", "cmdline": ["python"]}
    assert await _described(line, run, 4, _process(exe="/bin/python", cmdline=["python"]), after_ns=10**9) == after_exec
    assert await _described(line, run, 5, _process(exe="/bin/late", cmdline=["late"])) == after_exec


async def test_containers_of_processes(line: Line) -> None:
    """A container without a known name has its id's first digits; names are kept; a process that moves has only what
    its new place has."""
    run, id_ = Run(), "0123456789ab" + "cd" * 26

    async def described(sequence: int, after_s: int, **facts: Any) -> Mapping[str, Any]:
        found = await _described(line, run, sequence, _process(**facts), after_s * 10**9)
        return {name: value for name, value in found.items() if value is not None}

    runtime = {"cgroup": "/system.slice/engine.service", "unit": "engine.service"}
    inside = {"cgroup": f"/docker/{id_}", "container": id_[:12]}
    named = {"container": "web", "image": "nginx:1", "pod": "web-1", "namespace": "shop"}
    assert await described(1, 0, **runtime) == runtime
    assert await described(2, 10, cgroup=inside["cgroup"], container_id=id_) == inside
    of_engine = {"container_name": "web", "image": "nginx:1", "pod": "web-1", "namespace": "shop"}
    assert await described(3, 20, cgroup=inside["cgroup"], container_id=id_, **of_engine) == inside | named
    assert await described(4, 30, cgroup=inside["cgroup"], container_id=id_) == inside | named
    assert await described(5, 25, **runtime) == inside | named
    assert await described(6, 40, **runtime) == runtime
    assert line.query("SELECT container_id FROM scope.processes WHERE pid = 4711") == [(None,)]


async def test_a_block_knows_what_it_holds(line: Line) -> None:
    """A block lists its machines, processes and names; the catalogue has the times and machine of each batch."""
    run = Run()
    await line.send(run.batch(1, rows(2)))
    await line.send(run.batch(2, rows(3, 2, pid=815, comm=["one", "else", "one"], name=[None] * 3)))
    held = """
        SELECT row_count, array(SELECT pid FROM store.processes WHERE id = ANY(b.processes) ORDER BY pid),
               array(SELECT text FROM store.names WHERE id = ANY(b.names) ORDER BY text),
               array(SELECT machine_id FROM store.machines WHERE id = ANY(b.machines))
        FROM fresh.syscall b ORDER BY row_count"""
    machines = [line.machine.machine_id]
    assert line.query(held) == [
        (2, [4711], ["one", "read", "two\\xff"], machines),
        (3, [815], ["else", "one"], machines),
    ]
    assert line.query(
        "SELECT b.sequence, b.first_time = e.first AND b.last_time = e.last AND b.machine = %s "
        "FROM store.batches b JOIN (SELECT batch, min(time) AS first, max(time) AS last "
        "FROM scope.syscall GROUP BY batch) e ON e.batch = b.id ORDER BY 1",
        line.machine.key,
    ) == [(1, True), (2, True)]


async def test_times_of_processes_are_sane(line: Line) -> None:
    """A batch that describes a process with a start of 2**63 ns is refused."""
    batch = Run().batch(1, rows(3))
    batch.batch.processes.append(Process(pid=1, start_ns=1 << 63))
    assert [answer.verdict for answer in await line.send(batch)] == [REFUSED]


async def test_a_new_dimension_is_one_declaration(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given its table, texts of a declared dimension are written there, shown by views and totals, and swept."""
    nicknames = Dimension("nicknames", kind="nickname", takes=lambda column: column.name == "nickname")
    monkeypatch.setattr(declared, "_OF_ROWS", (*declared.of_rows(), nicknames))
    like = streams()["syscall"]
    columns = tuple(replace(one, name="nickname") if one.name == "name" else one for one in like.columns)
    told = replace(like, name="told", columns=columns, rollup=Rollup(by=("comm", "nickname")))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE store.nicknames (LIKE store.names INCLUDING ALL)")
    async with lined(database, tables=Tables([told])) as line:
        run = Run()
        for sequence, (name, days) in enumerate({"old": 5, "new": 0}.items(), 1):
            sent = rows(11, name=[name] * 11, comm=[name] * 11)
            sent = sent.rename_columns(["nickname" if one == "name" else one for one in sent.schema.names])
            batch = run.batch(sequence, sent, stream="told", boot_to_utc_ns=ago(days))
            assert [answer.verdict for answer in await line.send(batch)] == [STORED]
        counted = "SELECT nickname, comm, {} FROM scope.told{} GROUP BY 1, 2 ORDER BY 1"
        assert line.query(counted.format("count(*)", "")) == [("new", "new", 11), ("old", "old", 11)]
        since = "_minutes('-infinity', 'infinity')"
        assert line.query(counted.format("sum(count)::integer", since)) == [("new", "new", 11), ("old", "old", 11)]
        with psycopg.connect(line.conninfo, autocommit=True) as upkeep:
            retain(upkeep, keep_days=2)
            sweep(upkeep)
        for table in ("nicknames", "names"):
            assert line.query(f"SELECT text FROM store.{table}") == [("new",)]
        assert line.query(counted.format("count(*)", "")) == [("new", "new", 11)]
