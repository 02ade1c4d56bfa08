"""The store's background work, except for dropping old days."""

from scope_server.store.schema.tables import Tables
from scope_server.store.upkeep.chores import chores


def test_every_chore_can_wait() -> None:
    """Packing and merging are frugal (they keep to a share of a CPU and wait while the disk is short), never urgent."""
    found = chores("", Tables([]))
    assert {chore.name: (chore.frugal, chore.urgent) for chore in found} == {
        "merge": (True, False),
        "pack": (True, False),
    }
