"""What the store does in the background beside dropping what is too much."""

from scope_server.store.upkeep.chores import chores


def test_every_chore_can_wait() -> None:
    """Packing and merging keep to upkeep's share of a CPU, and do nothing while the disk is short."""
    found = chores("", {})
    assert {chore.name: (chore.frugal, chore.urgent) for chore in found} == {
        "merge": (True, False),
        "pack": (True, False),
    }
