"""The quarantine for operators: the API and the command line list, retry and drop entries."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.server.records import Line, Run, rows
from tests.integration.server.test_quarantine import TRIGGER

from scope_cli.commands import admin


async def test_what_was_refused_can_be_stored_after_all(line: Line, start_server: Callable[..., Any]) -> None:
    """A retry that fails is a 409 and changes nothing; one that succeeds subtracts the events from the losses."""
    line.query(TRIGGER)
    run = Run()
    await line.send(run.start(), run.batch(1, rows(17), emitted=17), run.end({"syscall": 1}))
    assert line.books() == [(17, 0, 17, 0, True)]
    async with start_server() as server:
        _, listed = await server.ask("GET", "quarantine")
        (entry,) = listed["quarantine"]
        assert (entry["stream"], entry["sequence"], entry["events"], entry["kept"]) == ("syscall", 1, 17, True)
        assert "unlucky" in entry["reason"]
        status, problem = await server.ask("POST", f"quarantine/{entry['id']}/retry")
        assert (status, line.books()) == (409, [(17, 0, 17, 0, True)]), problem
        line.query("DROP TRIGGER refuse ON fresh.syscall")
        assert (await server.ask("POST", f"quarantine/{entry['id']}/retry"))[0] == 200
        assert line.books() == [(17, 17, 0, 0, True)]
        assert (await server.ask("GET", "quarantine"))[1] == {"quarantine": []}
        assert len((await server.get("events", "syscall"))["events"]) == 17


async def test_what_is_dropped_stays_booked_as_lost(line: Line, start_server: Callable[..., Any]) -> None:
    """A dropped entry is gone, but its events stay counted as lost."""
    line.query(TRIGGER)
    run = Run()
    await line.send(run.start(), run.batch(1, rows(17), emitted=17), run.end({"syscall": 1}))
    async with start_server() as server:
        entry = (await server.ask("GET", "quarantine"))[1]["quarantine"][0]["id"]
        assert (await server.ask("POST", f"quarantine/{entry}/drop"))[0] == 200
        assert (await server.ask("POST", f"quarantine/{entry}/drop"))[0] == 404
        assert (await server.ask("POST", f"quarantine/{entry}/retry"))[0] == 404
    assert line.books() == [(17, 0, 17, 0, True)]


@pytest.mark.parametrize("entry", ["0", "-1", "x", "9" * 30, "1e3", "%00"])
async def test_an_entry_is_a_number(start_server: Callable[..., Any], entry: str) -> None:
    """An entry's id is a positive number; any other text is no entry's: a 404."""
    async with start_server() as server:
        for verb in ("retry", "drop"):
            status, problem = await server.ask("POST", f"quarantine/{entry}/{verb}")
            assert (status, problem["status"]) == (404, 404)


async def test_the_command_line_lists_what_there_is(
    line: Line, start_server: Callable[..., Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scope admin quarantine` lists the entries, or says that there are none."""
    import argparse
    import asyncio

    line.query(TRIGGER)
    run = Run()
    parser = argparse.ArgumentParser()
    admin.register(parser.add_subparsers())
    async with start_server() as server:
        monkeypatch.setenv("SCOPE_URL", f"http://{server.http}")
        monkeypatch.setenv("SCOPE_TOKEN_FILE", str(server.token))
        for said in ("the quarantine is empty", "unlucky"):
            given = parser.parse_args(["admin", "quarantine"])
            await asyncio.to_thread(given.run, given)
            assert said in capsys.readouterr().out
            await line.send(run.start(), run.batch(1, rows(17), emitted=17))
