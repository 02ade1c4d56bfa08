"""The rows of a recording of `ollama`, as its tests compare them."""

from typing import Any

from tests.probes.recording import Recording


def requests(recorded: Recording) -> list[dict[str, Any]]:
    """The requests, none of which is lost or incomplete."""
    assert recorded.accounts["ollama_request"].lost == {}
    assert recorded.accounts["ollama_request"].incomplete == 0
    return recorded.rows("ollama_request")


def told(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Some columns of rows."""
    return [tuple(row[name] for name in names) for row in rows]
