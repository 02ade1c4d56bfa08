"""The last line of a trace."""

from typing import Any

import pytest

from scope_bpf.capture.account import Account
from scope_cli.trace.summary import summary_line

ROOM = "enlarge the ring with -o ring_bytes=N, or use --mode summary"
FULL = "a table in the kernel was full: trace fewer processes (`scope probes NAME` has the probe's limits)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "1,234 rows in 1.5 s, none lost"),
        ({"rows": 1, "shown": 1}, "1 row in 1.5 s, none lost"),
        ({"shown": 7}, "1,234 rows in 1.5 s, 7 meet the filter, none lost"),
        (
            {"lost": ({"ring_full": 1000}, {"ring_full": 1, "left": 2})},
            f", 1,001 lost (ring_full), 2 lost (left); {ROOM}",
        ),
        ({"lost": ({"map_full": 7}, {})}, f", 7 lost (map_full); {FULL}"),
        (
            {"incomplete": (3, 4)},
            "none lost; 7 rows are incomplete: no known process, no room for a stack or a name, unreadable memory, "
            "or an unseen switch",
        ),
        ({"status": 0}, "none lost"),
        ({"status": 3}, "none lost; the command ended with status 3"),
        ({"status": -15}, "none lost; the command was killed by SIGTERM"),
        ({"status": -40}, "none lost; the command was killed by signal 40"),
    ],
)
def test_everything_is_said(given: dict[str, Any], said: str) -> None:
    """The last line has the rows, the losses of all streams with their remedy, and how the command ended."""
    lost, incomplete = given.get("lost", ({}, {})), given.get("incomplete", (0, 0))
    accounts = {str(number): _account(lost[number], incomplete[number]) for number in range(2)}
    rows, shown = given.get("rows", 1234), given.get("shown", 1234)
    assert summary_line(rows, shown, 1.5, accounts, given.get("status")).endswith(said)


def _account(lost: dict[str, int], incomplete: int) -> Account:
    return Account(emitted=0, lost=lost, incomplete=incomplete)
