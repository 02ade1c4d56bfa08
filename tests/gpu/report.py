"""The printed report: facts, and checks with the expected and recorded values where they differ."""

import difflib
from collections import Counter
from collections.abc import Mapping

_MOST_LINES = 20  # printed per difference


def _lines(value: object) -> list[str]:
    """A value as lines for a diff."""
    if isinstance(value, Mapping):
        return [f"{key}: {held}" for key, held in sorted(value.items(), key=str)]
    if isinstance(value, list):
        return [str(item) for item in value]
    return [str(value)]


class Report:
    """Prints each result at once, and counts the checks.

    Attributes:
        checks: number of checks by outcome: ok, FAILED.
    """

    def __init__(self) -> None:
        self.checks: Counter[str] = Counter()

    def title(self, text: str) -> None:
        """Begins a section."""
        print(f"\n{text}", flush=True)

    def fact(self, text: str) -> None:
        """Prints an observation without an expected value."""
        print(f"  fact    {text}", flush=True)

    def check(self, what: str, expected: object, recorded: object) -> None:
        """Prints whether the values are equal, and how they differ."""
        outcome = "ok" if expected == recorded else "FAILED"
        self.checks[outcome] += 1
        size = f" ({len(expected)})" if isinstance(expected, list) else ""
        print(f"  {outcome:<8}{what}{size}", flush=True)
        if expected == recorded:
            return
        lines = difflib.unified_diff(_lines(expected), _lines(recorded), n=0, lineterm="")
        changes = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
        for line in changes[:_MOST_LINES]:
            print(f"          {'expected' if line[0] == '-' else 'recorded'}  {line[1:]}")
        if len(changes) > _MOST_LINES:
            print(f"          and {len(changes) - _MOST_LINES} more")
