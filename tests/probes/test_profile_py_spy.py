"""`profile` and py-spy sample the same run at once: both find the same lines, each as often."""

import math
import re
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.llm.runs import stopped
from tests.probes.conftest import WORKLOADS
from tests.probes.recording import Record

from scope_bpf.catalogue.target import Target

PROGRAM = WORKLOADS / "python_busy.py"
PY_SPY = Path(sys.executable).with_name("py-spy")
SECONDS = 3
RATE, PY_SPYS_RATE = 997, 241
SURE = 6  # standard deviations


def interpreters() -> list[Any]:
    """The interpreters of this machine that both know."""
    found = [Path("/usr/bin/python3.11")]
    for version in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13"):
        found += sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python3"))[:1]
    return [pytest.param(path, id=str(path)) for path in found if path.exists()]


def innermost(raw: str) -> Counter[str]:
    """Samples by innermost frame, in py-spy's format: frames, separated by semicolons, and how often."""
    found: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        found[stack.rpartition(";")[2]] += int(count)
    return found


def differing(one: Counter[str], other: Counter[str]) -> dict[str, tuple[float, float]]:
    """The shares of what chance does not explain: two samples of the same distribution, whose sizes are known."""
    found = {}
    for name in one | other:
        shares = one[name] / one.total(), other[name] / other.total()
        # At least one sample: a line may be so rare that one of both has not seen it.
        both = max(one[name] + other[name], 1) / (one.total() + other.total())
        chance = math.sqrt(both * (1 - both) * (1 / one.total() + 1 / other.total()))
        if abs(shares[0] - shares[1]) > SURE * chance + 1 / min(one.total(), other.total()):
            found[name] = shares
    return found


def functions(lines: Counter[str]) -> Counter[str]:
    """The samples by function and file."""
    found: Counter[str] = Counter()
    for name, count in lines.items():
        found[re.sub(r":\d+\)$", ")", name)] += count
    return found


@pytest.mark.parametrize("python", interpreters())
def test_the_same_lines(record: Record, python: Path, tmp_path: Path) -> None:
    """Function, file and line of the innermost Python frame have the same share of the samples."""
    raw = tmp_path / "raw"
    options = (
        f"--format raw --full-filenames --rate {PY_SPYS_RATE} --duration {SECONDS} --output {shlex.quote(str(raw))}"
    )
    with stopped([str(python), str(PROGRAM)], tmp_path / "out") as pid:
        both = f"kill -CONT {pid}; {PY_SPY} record {options} --pid {pid} >&2"
        recorded = record("profile", ["sh", "-c", both], target=Target(pid=pid), rate=RATE)
    assert recorded.status == 0
    theirs = innermost(raw.read_text())
    ours = Counter(row["python"] for row in recorded.rows("profile") if row["python"])
    assert min(ours.total(), theirs.total()) > 20  # py-spy stops what it samples, for long if it has no CPU itself
    assert differing(ours, theirs) == {}
    assert differing(functions(ours), functions(theirs)) == {}
    busiest = {name for name, count in functions(ours).items() if count > 0.05 * ours.total()}
    assert len(busiest) >= 4
    assert recorded.accounts["profile"].lost == {}


def test_what_chance_does_not_explain_is_found() -> None:
    """Lines that are off by one, or have another share, differ."""
    one = Counter({"f (x.py:3)": 600, "f (x.py:4)": 400})
    assert differing(one, Counter({"f (x.py:3)": 310, "f (x.py:4)": 190})) == {}
    assert len(differing(one, Counter({"f (x.py:3)": 200, "f (x.py:4)": 300}))) == 2
    assert len(differing(one, Counter({"f (x.py:4)": 600, "f (x.py:5)": 400}))) == 3
