"""GPU state from NVML's stand-in to the database and to Prometheus."""

import os
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.e2e.conftest import Up, run_up, until
from tests.probes.nvml import build_nvml


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        environment = build_nvml(Path(folder))
        Path(environment["NVML_PROCESSES"]).write_text(f"{os.getpid()} 1009\n")
        running = run_up(Path(folder) / "state", **environment)
        yield running
        running.stop()


def _metrics(up: Up) -> set[str]:
    with urllib.request.urlopen(f"http://{up.metrics}/metrics") as answer:
        return {line for line in answer.read().decode().splitlines() if line.startswith("scope_gpu")}


def test_rows_and_metrics_while_a_task_runs(up: Up) -> None:
    """A running task's values are in SQL and Prometheus, absent ones never as 0. After the task, no metric is left."""
    assert not _metrics(up)
    task = up.scope("start", "local", "gpu", "-o", "interval_ms=200").stdout.strip()
    until(lambda: all(up.client.get("events", stream)["events"] for stream in ("gpu", "gpu_process")))
    assert up.client.get("events", "gpu_process", where=f"pid = {os.getpid()}")["events"]
    first, second = 'device="0",name="NVIDIA H100 80GB HBM3",uuid="GPU-101"', "GeForce RTX 2060"
    metrics = _metrics(up)
    assert f"scope_gpu_memory_used_bytes{{{first}}} 7.516192768e+09" in metrics
    assert f"scope_gpu_power_watts{{{first}}} 412.345" in metrics
    assert not [line for line in metrics if line.startswith("scope_gpu_power_watts") and second in line]
    assert [line for line in metrics if line.startswith("scope_gpu_temperature_celsius") and second in line]
    (holds,) = [line for line in metrics if line.startswith("scope_gpu_process_")]
    assert holds.startswith("scope_gpu_process_used_bytes{") and holds.endswith("} 1009.0")
    assert f'pid="{os.getpid()}"' in holds and 'kind="compute"' in holds
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        row = connection.execute("SELECT * FROM scope.gpu WHERE device = 0 ORDER BY time LIMIT 1")
        named = dict(zip([column.name for column in row.description or ()], row.fetchone() or (), strict=True))
        assert (named["name"], named["slowed_by"], named["power_watts"]) == (
            "NVIDIA H100 80GB HBM3",
            "power_cap,thermal",
            412.345,
        )
        assert named["hostname"]
        assert "pid" not in named, "a GPU is no process"
        sound = connection.execute("SELECT bool_and(under_way >= 0) FROM scope.books WHERE stream = 'gpu'").fetchone()
        assert sound == (True,)
        held = connection.execute("SELECT comm, used_bytes FROM scope.gpu_process_now() WHERE pid = %s", [os.getpid()])
        assert held.fetchall() == [(Path("/proc/self/comm").read_text().strip(), 1009)]
    first, second = up.scope("states", "gpu").stdout.splitlines()[1:]
    assert "412 W" in first and "7 GiB" in first
    assert "GeForce RTX 2060" in second and " - " in second
    assert f" {os.getpid()} " in up.scope("states", "gpu_process", "--pid", str(os.getpid())).stdout
    (node,) = up.client.get("nodes")["nodes"]
    assert up.client.get("events", "gpu", machine=node["machine_id"], limit=1)["events"]
    refused = up.scope("events", "gpu", "--where", "pid = 1").stderr
    assert "no column 'pid'; there are: ktime_ns, device, uuid" in refused
    assert up.scope("stop", task).returncode == 0
    assert not _metrics(up)

    def under_way() -> list[int]:
        return [stream["under_way"] for stream in up.client.get("tasks", task)["streams"]]

    until(lambda: under_way() == [0, 0, 0])
