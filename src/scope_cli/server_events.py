"""Server-sent events (HTML Standard, 9.2), as the API's live routes write them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    """An event: its name, the id that a reconnect goes on after (empty: none), and its data."""

    name: str
    id: str
    data: str


def server_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """The events in these lines. The last one is left out if its end is missing: the connection broke within it."""
    fields: dict[str, str] = {}
    for line in lines:
        text = line.decode().rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            fields[name] = value.removeprefix(" ")
        elif line:
            if "data" in fields:
                yield ServerEvent(fields.get("event", "message"), fields.get("id", ""), fields["data"])
            fields = {}
