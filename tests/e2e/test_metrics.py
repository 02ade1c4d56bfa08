"""Metrics of a running agent and server: they keep to conventions, and what dashboards and alerts read is there."""

import re
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml
from deploy.grafana.generate import dashboards
from deploy.grafana.panels import PromQL
from tests.e2e.conftest import Up

from scope_catalogue.catalogue import streams
from scope_cli.https import socket_opener

RULES = Path(__file__).parents[2] / "deploy/prometheus/rules/scope.yml"
# No units of these: columns of a GPU's row, and a count of days.
KNOWN = ("scope_gpu_", "scope_server_dropped_days")


def _exposed(up: Up) -> dict[str, str]:
    """The metrics of both as text."""
    agent = urllib.request.urlopen(f"http://{up.metrics}/metrics").read().decode()
    server = socket_opener(str(up.state / "api.sock")).open("http://localhost/metrics", timeout=30).read().decode()
    return {"agent": agent, "server": server}


@pytest.mark.parametrize("of", ["agent", "server"])
def test_promtool_accepts_them(up: Up, of: str) -> None:
    """promtool finds nothing against the conventions."""
    text = _exposed(up)[of]
    told = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    complaints = [line for line in told.stderr.splitlines() if not line.startswith(KNOWN)]
    assert complaints == []


def test_what_is_read_exists(up: Up) -> None:
    """Each metric in a panel or an alert rule is one that the agent or the server has."""
    queries = [
        q.text for board in dashboards().values() for p in board.panels for q in p.queries if isinstance(q, PromQL)
    ]
    rules = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    read = {name for text in (*queries, *rules) for name in re.findall(r"\b(?:scope|process)_\w+", text)}
    exposed = {name for text in _exposed(up).values() for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)}
    exposed |= {f"{name}_bucket" for name in exposed}
    exposed |= {f"scope_gpu_{column.name}" for column in streams()["gpu"].columns}  # while a task samples GPUs
    assert len(read) > 30
    assert read - exposed == set()


def test_series_are_few(up: Up) -> None:
    """No label has values without end: an agent and a server have some hundred series each, whatever they watch."""
    for text in _exposed(up).values():
        series = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert 50 < len(series) < 3000
        assert not [one for one in series if re.search(r'\b(pid|comm|path|cmdline)="', one)]


def test_requests_are_measured(up: Up) -> None:
    """Each request counts by route and status, and its duration in a histogram."""
    before = _exposed(up)["server"]
    up.client.get("nodes")
    after = _exposed(up)["server"]
    name = 'scope_server_requests_total{route="get_nodes",status="2xx"}'
    counts = [dict(re.findall(r"^(\S+) (\S+)$", text, re.MULTILINE)).get(name, "0") for text in (before, after)]
    assert float(counts[1]) > float(counts[0])
    assert 'scope_server_request_seconds_bucket{le="+Inf",route="get_nodes"}' in after
