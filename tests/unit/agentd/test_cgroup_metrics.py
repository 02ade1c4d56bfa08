"""Metrics of containers and units equal their cgroups' files, and stay few on machines with many of them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from scope_agentd.cgroup_metrics import MOST, CgroupCollector
from scope_bpf.cgroups.files import UNIFIED
from scope_bpf.cgroups.tree import Hierarchy
from scope_bpf.containers.containers import Containers
from scope_bpf.host import cgroup_root

ID = "c0ffee" * 10 + "beef"
UID = "01234567_89ab_cdef_0123_456789abcdef"
POD = f"kubepods.slice/kubepods-pod{UID}.slice"


def _told(collector: CgroupCollector) -> dict[str, float]:
    """Values by name and those labels that have a value."""
    return {
        f"{sample.name}{sorted(value for value in sample.labels.values() if value)}": sample.value
        for metric in collector.collect()
        for sample in metric.samples
    }


class Tree:
    """Folders like those of cgroup v2."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.collector = CgroupCollector(Containers(root), [Hierarchy(str(root), UNIFIED, is_unified=True)])

    def used(self, path: str, usec: int, **files: str) -> None:
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.stat").write_text(f"usage_usec {usec}\n")
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_values_are_those_of_the_kernel(tree: Tree) -> None:
    """Each number has its unit, and a container has its pod; what a cgroup does not have is left out."""
    tree.used(
        f"{POD}/cri-containerd-{ID}.scope",
        2_500_000,
        memory_current="4096\n",
        memory_max="max\n",
        memory_stat="anon 1000\nfile 5\n",
        memory_events="low 0\noom 4\noom_kill 3\n",
        io_stat="900:0 rbytes=512 wbytes=1024 rios=1 wios=2\n",
        cpu_pressure="some avg10=0.00 total=1500000\nfull avg10=0.00 total=7\n",
        pids_current="17\n",
    )
    tree.used("system.slice/cron.service", 1_000_000)
    tree.used("system.slice", 9_000_000)
    told = _told(tree.collector)
    container = sorted([ID[:12], UID.replace("_", "-")])
    assert told[f"scope_cgroup_cpu_seconds_total{container}"] == 2.5
    assert told[f"scope_cgroup_memory_bytes{container}"] == 4096
    assert told[f"scope_cgroup_anon_bytes{container}"] == 1000
    assert told[f"scope_cgroup_oom_kills_total{container}"] == 3
    assert told[f"scope_cgroup_disk_written_bytes_total{container}"] == 1024
    assert told[f"scope_cgroup_pressure_seconds_total{sorted([*container, 'cpu'])}"] == 1.5
    assert told[f"scope_cgroup_threads{container}"] == 17
    assert f"scope_cgroup_memory_limit_bytes{container}" not in told, "it has no limit"
    cron = ["cron.service"]
    assert {key for key in told if "cron" in key} == {f"scope_cgroup_cpu_seconds_total{cron}"}
    assert sum(key.startswith("scope_cgroup_cpu_seconds_total") for key in told) == 2, "a slice is neither"
    assert told["scope_cgroups_left_out[]"] == 0


def test_what_is_below_is_told_once(tree: Tree) -> None:
    """Cgroups below those of a unit or container belong to it."""
    tree.used("system.slice/nginx.service", 5_000_000)
    tree.used("system.slice/nginx.service/workers", 4_000_000)
    tree.used(f"docker/{ID}", 3_000_000)
    tree.used(f"docker/{ID}/init", 2_000_000)
    told = {key: value for key, value in _told(tree.collector).items() if "cpu_seconds" in key}
    assert told == {
        f"scope_cgroup_cpu_seconds_total{['nginx.service']}": 5,
        f"scope_cgroup_cpu_seconds_total{[ID[:12]]}": 3,
    }


def test_labels_are_few(tree: Tree) -> None:
    """A machine with many units tells those that used most, and how many it leaves out."""
    for number in range(MOST + 37):
        tree.used(f"system.slice/unit{number}.service", number * 1000)
    told = _told(tree.collector)
    assert sum(key.startswith("scope_cgroup_cpu_seconds_total") for key in told) == MOST
    assert f"scope_cgroup_cpu_seconds_total{['unit36.service']}" not in told
    assert f"scope_cgroup_cpu_seconds_total{['unit37.service']}" in told
    assert told["scope_cgroups_left_out[]"] == 37


def test_units_with_the_same_name(tree: Tree) -> None:
    """Two users' units have one name: Prometheus would refuse both, so the busier one is told."""
    for user, usec in (("1000", 3_000_000), ("1001", 4_000_000)):
        tree.used(f"user.slice/user@{user}.service/app.slice/editor.service", usec)
        tree.used(f"user.slice/user@{user}.service", usec)
    told = _told(tree.collector)
    assert told[f"scope_cgroup_cpu_seconds_total{['editor.service']}"] == 4
    assert told["scope_cgroups_left_out[]"] == 1


@pytest.fixture
def unit() -> Iterator[str]:
    root = cgroup_root()
    assert root
    name = f"scope-test-metrics-{os.getpid()}.service"
    (root / name).mkdir()
    yield name
    (root / name).rmdir()


def test_this_machine(unit: str) -> None:
    """Here, a unit's CPU time is what its file says, and promtool finds no name or unit against conventions."""
    root = cgroup_root()
    assert root
    burn = f"echo $$ > {root}/{unit}/cgroup.procs; i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"
    subprocess.run(["sh", "-c", burn], check=True)
    registry = CollectorRegistry()
    registry.register(CgroupCollector(Containers()))
    value = registry.get_sample_value(
        "scope_cgroup_cpu_seconds_total", {"container": "", "pod": "", "namespace": "", "unit": unit}
    )
    (usage,) = [line for line in (root / unit / "cpu.stat").read_text().splitlines() if line.startswith("usage_usec")]
    assert value == pytest.approx(int(usage.split()[1]) / 1e6)
    assert value
    found = subprocess.run(["promtool", "check", "metrics"], input=generate_latest(registry), capture_output=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
