"""Flame graphs in SQL are nested sets whose values add up, as Grafana's panel expects."""

import time
from typing import Any

import psycopg
import pytest
from tests.integration.server.every_stream import tell_every_stream, told
from tests.integration.server.records import Line, Run
from tests.integration.server.tables import TABLES

ASKED = "SELECT level, value, self, label FROM scope.{}_flames(now() - interval '10 min')"


def _profile(stacks: dict[str | None, int]) -> Any:
    """One sample for each stack, with this duration."""
    columns = told("profile").slice(0, len(stacks)).to_pydict()
    columns |= {"stack": list(stacks), "duration_ns": list(stacks.values())}
    return type(told("profile")).from_pydict(columns, schema=TABLES["profile"].schema)


async def _sampled(line: Line, stacks: dict[str | None, int]) -> list[tuple[Any, ...]]:
    just_now = (time.time_ns() - 40 * 10**9) // 1000 * 1000
    await line.send(Run().batch(1, _profile(stacks), stream="profile", boot_to_utc_ns=just_now))
    return line.query(ASKED.format("profile"))


async def test_the_nodes_are_nested(line: Line) -> None:
    """Each node comes before its children; its value is its own weight and that of all below it."""
    found = await _sampled(line, {"main;a;b": 5, "main;a": 3, "main;c;b": 7, "idle": 2, None: 1})
    assert found[0] == (0, 18, 1, "total")
    assert sorted(found[1:]) == sorted(
        [(1, 15, 0, "main"), (1, 2, 2, "idle"), (2, 8, 3, "a"), (3, 5, 5, "b"), (2, 7, 0, "c"), (3, 7, 7, "b")]
    )
    below: list[tuple[int, int]] = []  # level and what is left of its value, of all nodes above
    for level, value, self_, _ in found:
        while below and below[-1][0] >= level:
            assert below.pop()[1] == 0
        if below:
            assert below[-1][0] == level - 1
            below[-1] = (level - 1, below[-1][1] - value)
        below.append((level, value - self_))
    assert [left for _, left in below] == [0] * len(below)


async def test_small_stacks_count_as_the_roots_own(line: Line) -> None:
    """Beyond the most stacks that are drawn, the sum is still exact."""
    await _sampled(line, {"a": 100, "b;c": 10, "d": 1})
    (keys,) = line.query("SELECT array_agg(id), array_agg(id::numeric) FROM store.stacks")
    drawn = line.query("SELECT level, value, self FROM store.flame_graph(%s, %s, 1)", *keys)
    whole = line.query("SELECT value FROM store.flame_graph(%s, %s)", *keys)
    assert len(drawn) < len(whole)
    assert drawn[0][1] == whole[0][0]
    assert drawn[0][2] > 0


async def test_every_stream_with_stacks_has_one(line: Line) -> None:
    """Each stream of rows with stacks and a measured column has the function; it selects machines and commands."""
    await tell_every_stream(line)
    measured = {name: table for name, table in TABLES.items() if table.latest is None and table.rollup.measured}
    with_stacks = [name for name, table in measured.items() if "stack" in table.schema.names]
    assert len(with_stacks) > 5
    for name in with_stacks:
        found = line.query(ASKED.format(name))
        assert {label for _, _, _, label in found} == {"total", "main", "run", "step 0", "step 1", "step 2"}, name
    chosen = "SELECT max(value) FROM scope.profile_flames('-infinity', 'infinity', %s, %s)"
    (every,) = line.query(chosen, None, None)
    assert line.query(chosen, [line.machine.machine_id], [f"comm {n}" for n in range(3)]) == [every]
    (one,) = line.query(chosen, None, ["comm 0"])
    assert 0 < one[0] < every[0]
    assert line.query(chosen, ["another"], None) == [(None,)]


async def test_nothing_recorded_has_no_nodes(line: Line) -> None:
    """Without rows, the flame graph is empty."""
    assert line.query(ASKED.format("profile")) == []


@pytest.mark.parametrize("stream", ["cuda_live", "syscall"])
def test_others_have_none(database: str, stream: str) -> None:
    """States are reported again and again, so they are not added up; streams without stacks have no flame graph."""
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regproc(%s)", [f"scope.{stream}_flames"]).fetchone() == (None,)
