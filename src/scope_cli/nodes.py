"""Machines as a table."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Group

from scope_cli.api import Node
from scope_cli.labels import shown
from scope_cli.quantities import age
from scope_cli.terminal import RowTable, plain
from scope_views.quantities import duration, size

CLOCK_TOLERANCE_NS = 10**9

_MEMBERSHIP = {
    "unconfirmed": "the database does not know that it joined: `scope admin confirm` or `scope admin revoke`",
    "removed": "it was removed, and needs a new token",
    "revoked": "it was revoked",
}


def node_table(nodes: Sequence[Node], now: datetime | None = None) -> RowTable:
    """A line a machine: what it is, whether its agent is connected, and what is to be said of it."""
    now = now or datetime.now(UTC)
    table = RowTable("hostname", "machine", "kernel", "cpus", "connected", "last seen", "labels", "remarks")
    for node in nodes:
        table.add_row(
            node["hostname"],
            node["machine_id"][:12],
            node["kernel"],
            str(node["cpus"]),
            "yes" if node["connected"] else "no",
            age((now - datetime.fromisoformat(node["last_seen"])).total_seconds()) if node["last_seen"] else "never",
            shown(node["labels"]),
            Group(*map(plain, remarks(node, now))),
        )
    return table


def remarks(node: Node, now: datetime | None = None) -> list[str]:
    """What a user should know of a machine: its membership, records that wait, a wrong clock, a copy of it."""
    said = list(filter(None, [_MEMBERSHIP.get(node["membership"] or "")]))
    spool = node["spool"]
    if spool and spool["records"]:
        said.append(f"spool: {spool['records']:,} records wait, {size(spool['bytes'])} of {size(spool['limit_bytes'])}")
    if spool and spool["deferred_records"]:
        said.append(f"spool: {spool['deferred_records']:,} of them wait: the server could not store them yet")
    if spool and spool["dropped_records"]:
        said.append(f"spool: {spool['dropped_records']:,} records were dropped")
    ahead = node["clock_ahead_ns"]
    if ahead is not None and abs(ahead) > CLOCK_TOLERANCE_NS:
        said.append(f"clock: {duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the server's")
    if conflict := node["conflict"]:
        passed = (now or datetime.now(UTC)) - datetime.fromisoformat(conflict["time"])
        said.append(
            f"conflict: another agent with this machine's id, on {conflict['hostname']}, "
            f"was refused {age(passed.total_seconds())}"
        )
    return said
