"""The machine's metrics equal what the kernel's own files say, and stay few on machines with many devices."""

import os
import subprocess
import time
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from scope_agentd.host_metrics import MOST, HostCollector


def _told(collector: HostCollector) -> dict[str, float]:
    """Values by name and labels."""
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for metric in collector.collect()
        for sample in metric.samples
    }


def _of(values: dict[str, float], name: str) -> float:
    return sum(value for key, value in values.items() if key.startswith(f"{name}["))


def _machine(folder: Path) -> HostCollector:
    """A machine with 100 interfaces and 100 disks, each with a partition."""
    proc, sys = folder / "proc", folder / "sys"
    for part in ("net", "pressure"):
        (proc / part).mkdir(parents=True)
    (proc / "stat").write_text("cpu 100 0 200 300 0 0 0 50 7 0\ncpu0 1 1 1\ncpu1 1 1 1\nctxt 17\nbtime 1700000000\n")
    (proc / "loadavg").write_text("1.50 1.00 0.50 2/300 4711\n")
    (proc / "meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 250 kB\nHugePages_Total: 0\n")
    interfaces = [f"  eth{n}: {n * 1000} 1 0 0 0 0 0 0 {n * 100} 2 0 0 0 0 0 0" for n in range(100)]
    loopback = "    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0"
    (proc / "net/dev").write_text("\n".join(["Inter-|", " face |", loopback, *interfaces]))
    disks = [f"8 {n} sd{n} {n} 0 {n * 2} 0 {n} 0 {n * 4} 0 0 1500 0" for n in range(100)]
    parts = [f"8 {n} sd{n}p1 {n} 0 {n * 2} 0 {n} 0 {n * 4} 0 0 1500 0" for n in range(100)]
    (proc / "diskstats").write_text("\n".join([*disks, *parts]))
    for n in range(100):
        (sys / "block" / f"sd{n}").mkdir(parents=True)
    (proc / "vmstat").write_text("nr_free_pages 1\npswpin 3\npswpout 0\npgmajfault 11\n")
    (proc / "pressure/cpu").write_text("some avg10=0 avg60=0 avg300=0 total=2500000\nfull total=1\n")
    return HostCollector(proc, sys)


def test_values_are_those_of_the_kernel(tmp_path: Path) -> None:
    """Each number has its unit: seconds, bytes; a partition and loopback count nothing."""
    told = _told(_machine(tmp_path))
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert told["scope_host_cpu_seconds_total[('mode', 'system')]"] == 200 * tick
    assert told["scope_host_cpus[]"] == 2
    assert told["scope_host_context_switches_total[]"] == 17
    assert told["scope_host_memory_available_bytes[]"] == 250 << 10
    assert told["scope_host_disk_read_bytes_total[('device', 'sd99')]"] == 99 * 2 * 512
    assert told["scope_host_disk_busy_seconds_total[('device', 'sd99')]"] == 1.5
    assert told["scope_host_network_sent_bytes_total[('interface', 'eth99')]"] == 9900
    assert told["scope_host_pressure_seconds_total[('resource', 'cpu')]"] == 2.5
    assert told["scope_host_stalled_seconds_total[('resource', 'cpu')]"] == 1e-6
    assert [told[f"scope_host_load{minutes}[]"] for minutes in (1, 5, 15)] == [1.5, 1, 0.5]
    assert told["scope_host_swapped_in_bytes_total[]"] == 3 * os.sysconf("SC_PAGE_SIZE")
    assert told["scope_host_major_faults_total[]"] == 11
    assert not any("lo'" in key or "p1'" in key for key in told)


def test_labels_are_few(tmp_path: Path) -> None:
    """A machine with many devices tells the busiest of them."""
    told = _told(_machine(tmp_path))
    for name in ("scope_host_network_sent_bytes_total", "scope_host_disk_written_bytes_total"):
        assert sum(key.startswith(name) for key in told) == MOST
    assert "scope_host_disk_read_bytes_total[('device', 'sd99')]" in told
    assert "scope_host_disk_read_bytes_total[('device', 'sd1')]" not in told


def test_missing_files_are_left_out(tmp_path: Path) -> None:
    """Where the kernel has no such file, or it is hidden, the rest is told."""
    collector = _machine(tmp_path)
    for name in ("pressure/cpu", "diskstats", "meminfo", "loadavg"):
        (tmp_path / "proc" / name).unlink()
    told = _told(collector)
    assert "scope_host_cpus[]" in told
    assert not any("memory" in key or "disk" in key for key in told)


def test_this_machine() -> None:
    """Here, CPU time passes as CPUs times time does, and memory equals what `free` prints."""
    collector = HostCollector()
    before, begin = _told(collector), time.monotonic()
    time.sleep(1.0)
    after, lasted = _told(collector), time.monotonic() - begin
    passed = _of(after, "scope_host_cpu_seconds_total") - _of(before, "scope_host_cpu_seconds_total")
    cpus = len(os.sched_getaffinity(0)) if after["scope_host_cpus[]"] < 1 else after["scope_host_cpus[]"]
    assert 0.3 * cpus * lasted < passed < 3 * cpus * lasted
    total = subprocess.run(["free", "--bytes"], capture_output=True, text=True, check=True).stdout.split()[7]
    assert after["scope_host_memory_total_bytes[]"] == int(total)


def test_prometheus_accepts_the_names() -> None:
    """promtool finds no name or unit against Prometheus's conventions."""
    registry = CollectorRegistry()
    registry.register(HostCollector())
    found = subprocess.run(["promtool", "check", "metrics"], input=generate_latest(registry), capture_output=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
