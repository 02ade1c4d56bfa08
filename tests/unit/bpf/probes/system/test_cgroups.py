"""Rows of cgroups, from folders like those of cgroup v2: what is new since the last reading, and what is now."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.cgroups.files import UNIFIED
from scope_bpf.cgroups.tree import Hierarchy
from scope_bpf.containers.containers import Containers
from scope_bpf.probes.system.cgroups import CgroupRows

SECOND = 1_000_000_000
ID = "c0ffee" * 10 + "beef"
DOCKER = f"/system.slice/docker-{ID}.scope"


class Tree:
    """A tree of cgroups and their rows."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._rows = CgroupRows([Hierarchy(str(root), UNIFIED, is_unified=True)], Containers(root))

    def used(self, path: str, usec: int, *, memory: int = 4096, pressure: int = 0, kills: int = 0) -> None:
        folder = self.root / path.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.stat").write_text(f"usage_usec {usec}\nuser_usec {usec // 2}\nsystem_usec {usec - usec // 2}\n")
        (folder / "memory.current").write_text(f"{memory}\n")
        (folder / "memory.events").write_text(
            f"low 0\nhigh 0\nmax {9 if memory else 0}\noom {kills}\noom_kill {kills}\n"
        )
        (folder / "io.pressure").write_text(f"some avg10={pressure}.00 total={pressure}\nfull avg10=0.00 total=0\n")
        (folder / "memory.max").write_text("65536\n")

    def rows(self, seconds: int = 1) -> dict[str, dict[str, Any]]:
        return {row["cgroup"]: row for row in self._rows.rows(seconds * SECOND)}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.used("/system.slice/cron.service", 1000)
    made.used(DOCKER, 2000)
    made.used("/idle.slice", 0, memory=0)
    return made


def test_rows_are_what_is_new(tree: Tree) -> None:
    """The first reading has sizes alone; then, counts and shares are those of the interval."""
    first = tree.rows(0)
    assert first.keys() == {"/system.slice/cron.service", DOCKER}
    assert (first[DOCKER]["memory_bytes"], first[DOCKER]["memory_limit_bytes"]) == (4096, 65536)
    assert not any(name.endswith("_percent") or name == "oom_kills" for name in first[DOCKER])
    tree.used(DOCKER, 2000 + 500_000, memory=8192, pressure=250_000, kills=3)
    found = tree.rows(2)
    assert found.keys() == {DOCKER}, "the others did nothing"
    row = found[DOCKER]
    assert (row["cpu_percent"], row["io_pressure_percent"], row["io_stalled_percent"]) == (25, 12.5, 0)
    assert (row["oom_kills"], row["memory_max_events"], row["memory_bytes"]) == (3, 0, 8192)
    assert row["interval_ns"] == 2 * SECOND


def test_pressure_alone_is_told(tree: Tree) -> None:
    """A cgroup whose threads only wait uses no CPU, and has a row."""
    tree.rows(0)
    tree.used(DOCKER, 2000, pressure=900_000)
    assert tree.rows()[DOCKER]["io_pressure_percent"] == 90
    assert tree.rows() == {}


def test_who_runs_in_it(tree: Tree) -> None:
    """A container has the begin of its id until its engine tells the name, a unit its name; ids are those of events."""
    first = tree.rows(0)
    assert (first[DOCKER]["container"], first[DOCKER]["unit"]) == (ID[:12], None)
    cron = first["/system.slice/cron.service"]
    assert (cron["container"], cron["unit"]) == (None, "cron.service")
    assert cron["cgroup_id"] == (tree.root / "system.slice/cron.service").stat().st_ino


def test_cgroups_come_and_go(tree: Tree) -> None:
    """All that a new cgroup used is new; one that ended has no rows; one with its path later begins anew."""
    tree.rows(0)
    tree.used("/new", 10_000)
    assert tree.rows()["/new"]["cpu_percent"] == 1
    kept = tree.root / "new"
    kept.rename(tree.root.parent / "kept")  # so that its inode is not given to the next
    assert tree.rows() == {}
    tree.used("/new", 20_000)
    assert tree.rows()["/new"]["cpu_percent"] == 2
    shutil.rmtree(tree.root.parent / "kept")


def test_a_controller_that_is_switched_on(tree: Tree) -> None:
    """What a controller counted before it was seen for the first time is not of this interval, and is absent."""
    (tree.root / DOCKER[1:] / "memory.events").unlink()
    tree.rows(0)
    tree.used(DOCKER, 3000, kills=5)
    assert "oom_kills" not in tree.rows()[DOCKER]
    tree.used(DOCKER, 3000, kills=6)
    assert tree.rows()[DOCKER]["oom_kills"] == 1


def test_names_that_are_no_text(tree: Tree) -> None:
    """A cgroup may have any name but one with a slash or a line's end."""
    tree.used("/\udcff\x1b[31m", 1000)
    assert "/\\xff\x1b[31m" in tree.rows(0)
