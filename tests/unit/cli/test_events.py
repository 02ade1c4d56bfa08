"""`scope events`: its requests to the server, page by page, and --follow."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from tests.unit.cli.conftest import Api

Scope = Callable[..., tuple[int, str, str]]


def _page(*numbers: int, next: str | None = None, more: bool = False) -> dict[str, Any]:
    return {"events": [{"arg0": number} for number in numbers], "next": next, "more": more, "losses": []}


def _asked(api: Api) -> list[dict[str, str]]:
    return [{name: value[0] for name, value in parse_qs(urlparse(path).query).items()} for _, path, _ in api.asked]


def test_a_filter_and_times_are_asked_for(api: Api, scope: Scope) -> None:
    """The filter and absolute times are sent unchanged; -5m is sent as the time five minutes ago."""
    api.answer("GET events/syscall", _page(1))
    before = datetime.now(UTC) - timedelta(minutes=5)
    words = ("--where", "ret < 0 and comm ~ 'g*'", "--since", "-5m", "--until", "2026-01-31T12:00:00Z", "--node", "it")
    assert scope("events", "syscall", *words, "--json") == (0, '{"arg0": 1}\n', "")
    (asked,) = _asked(api)
    assert timedelta(0) <= datetime.fromisoformat(asked.pop("since")) - before < timedelta(minutes=1)
    told = {"where": "ret < 0 and comm ~ 'g*'", "until": "2026-01-31T12:00:00Z", "machine": "it", "limit": "100"}
    assert asked == told


@pytest.mark.parametrize(
    ("text", "ago"), [("-90s", {"seconds": 90}), ("1.5h", {"hours": 1.5}), ("-2d", {"days": 2}), ("-0s", {})]
)
def test_a_time_may_be_so_long_ago(api: Api, scope: Scope, text: str, ago: dict[str, float]) -> None:
    """A relative time is given in seconds, minutes, hours or days."""
    api.answer("GET events/syscall", _page())
    before = datetime.now(UTC) - timedelta(**ago)
    assert scope("events", "syscall", "--since", text)[0] == 0
    assert timedelta(0) <= datetime.fromisoformat(_asked(api)[0]["since"]) - before < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["-5x", "5", "-m", "yesterday", "-999999999d", "", "-5m ago"])
@pytest.mark.usefixtures("api")
def test_what_is_no_time_is_refused(scope: Scope, text: str) -> None:
    """An invalid time is refused before any request; the message shows valid ones."""
    status, _, said = scope("events", "syscall", f"--since={text}")
    assert (status, said.count("\n")) == (2, 1)
    assert "is not a time; write -5m (s, m, h or d ago), or 2026-01-31T12:00:00Z" in said


def test_pages_are_joined_up_to_the_limit(api: Api, scope: Scope) -> None:
    """Pages are joined up to --limit; no more rows are requested than printed."""
    api.answer("GET events/syscall", _page(*range(1000), next="a"), _page(*range(1000, 1007), next="b"))
    status, out, _ = scope("events", "syscall", "--limit", "1007", "--json", "--order", "asc")
    assert (status, [json.loads(line)["arg0"] for line in out.splitlines()]) == (0, list(range(1007)))
    assert [(asked["limit"], asked.get("cursor"), asked["order"]) for asked in _asked(api)] == [
        ("1000", None, "asc"),
        ("7", "a", "asc"),
    ]


def _told(cursor: str, *numbers: int, before: str = "") -> bytes:
    rows = json.dumps([{"arg0": number} for number in numbers])
    return f"retry: 2000\n\n{before}event: rows\nid: {cursor}\ndata: {rows}\n\n: nothing new\n\n".encode()


def test_following_is_told_of_rows_as_they_are_stored(api: Api, scope: Scope) -> None:
    """--follow prints the rows up to now, then those that the live route tells after them. When the connection breaks,
    it goes on after the last rows that came whole; --limit ends it."""
    api.answer("GET events/syscall", _page(1, next="a"))
    cut = _told("c", 4, 5)
    broken = _told("b", 2, 3) + cut[: cut.index(b"5")]
    api.answer("GET live/syscall", broken, _told("c"), _told("d", 4, 5, 6))
    words = ("--follow", "--limit", "5", "--json", "--where", "ret < 0", "--node", "it", "--since", "-5m")
    status, out, said = scope("events", "syscall", *words)
    assert (status, said) == (0, "")
    assert [json.loads(line)["arg0"] for line in out.splitlines()] == [1, 2, 3, 4, 5]
    first, *live = _asked(api)
    assert first["order"] == "stored"
    assert first["since"]
    assert live == [{"where": "ret < 0", "machine": "it", "cursor": cursor} for cursor in ("a", "b", "c")]


def test_who_follows_slowly_asks_again(api: Api, scope: Scope) -> None:
    """If the server leaves out rows for a slow viewer, --follow goes on from its own place: it misses none."""
    api.answer("GET events/syscall", _page(next="a"))
    missed = 'event: missed\ndata: {"events": 2}\n\n'
    api.answer("GET live/syscall", _told("b", 1), _told("e", 4, before=missed), _told("f", 2, 3, 4))
    status, out, _ = scope("events", "syscall", "--follow", "--limit", "4", "--json")
    assert (status, [json.loads(line)["arg0"] for line in out.splitlines()]) == (0, [1, 2, 3, 4])
    assert [asked["cursor"] for asked in _asked(api)[1:]] == ["a", "b", "b"]


def test_a_server_that_goes_away_is_waited_for(api: Api, scope: Scope) -> None:
    """--follow reports a lost server once, then goes on with the next rows; without a server at the start it fails."""
    api.answer("GET events/syscall", _page(1, next="a"))
    api.answer("GET live/syscall", b'event: problem\ndata: {"detail": "the server ends"}\n\n')
    api.answer("GET live/syscall", *[{"detail": "the database cannot be reached"}] * 3, status=503)
    api.answer("GET live/syscall", _told("b", 2))
    status, out, said = scope("events", "syscall", "--follow", "--limit", "2", "--json")
    assert (status, out) == (0, '{"arg0": 1}\n{"arg0": 2}\n')
    assert said == "scope: the server ends; waiting for it\n"
    api.answers.clear()
    api.answer("GET events/syscall", {"detail": "the database cannot be reached"}, status=503)
    assert scope("events", "syscall", "--follow")[0] == 1


@pytest.mark.parametrize(
    ("words", "filter_"),
    [
        (["gpu", "pid=1"], "pid=1"),
        (["gpu", "pid", "=", "1", "--json"], "'pid = 1'"),
        (["gpu", "--where", "pid", "!=", "-1"], "'pid != -1'"),
    ],
)
def test_a_filter_without_its_option_is_recognized(scope: Scope, words: list[str], filter_: str) -> None:
    """The message repeats the filter behind --where, quoted for the shell."""
    said = f"scope: put the filter behind --where, in quotes: --where {filter_}\n"
    assert scope("events", *words) == (2, "", said)


@pytest.mark.parametrize("words", [(), ("--follow",)])
def test_a_wrong_filter_is_wrong_usage(api: Api, scope: Scope, words: tuple[str, ...]) -> None:
    """A wrong filter is reported with the server's reason in one line, and status 2 like a wrong option."""
    reason = "where, character 1: no column 'rat' (did you mean 'ret'?)"
    api.answer("GET events/syscall", {"title": "Bad request", "detail": reason}, status=400)
    assert scope("events", "syscall", "--where", "rat < 0", *words) == (2, "", f"scope: {reason}\n")


@pytest.mark.parametrize(
    "words", [("--follow", "--order", "asc"), ("--follow", "--until", "-5m"), ("--limit", "0"), ("--limit", "-1")]
)
@pytest.mark.usefixtures("api")
def test_options_that_contradict_each_other_are_refused(scope: Scope, words: tuple[str, ...]) -> None:
    """Contradicting options are refused in one line, with status 2."""
    status, _, said = scope("events", "syscall", *words)
    assert (status, said.count("\n")) == (2, 1)
