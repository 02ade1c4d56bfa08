"""What benchmarks read of the lines of `scope trace`."""

import pytest
from bench.measure import recorded

from scope_bpf.capture.account import Account
from scope_cli.trace.summary import summary_line


@pytest.mark.parametrize(
    ("rows", "lost", "found"),
    [
        (1, {}, (1, 0)),
        (300_000, {}, (300_000, 0)),
        (1_200, {"ring_full": 1_007, "left": 3}, (1_200, 1_010)),
    ],
)
def test_rows_and_losses_are_read(rows: int, lost: dict[str, int], found: tuple[int, int]) -> None:
    """The counts of the last line, after notes; without such a line, a benchmark fails."""
    line = summary_line(rows, rows, 1.5, {"syscall": Account(rows + sum(lost.values()), lost=lost)})
    assert recorded(f"a note of 7 rows in 3 files\n{line}\n") == found
    with pytest.raises(ValueError, match="no summary line"):
        recorded("scope: something failed\n")
