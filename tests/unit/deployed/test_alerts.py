"""Alert rules and scrape configurations: promtool reads them, each alert fires when it must, and its metrics exist."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[3] / "deploy/prometheus"
RULES = FOLDER / "rules/scope.yml"
CASES = Path(__file__).parent / "alerts.yml"


def _alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def _promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True)


def test_promtool_reads_the_rules() -> None:
    """The rules are valid, also their templates; each says what it means and what to do."""
    told = _promtool("check", "rules", RULES)
    assert told.returncode == 0, told.stderr
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in _alerts())
    assert {rule["labels"]["severity"] for rule in _alerts()} == {"warning", "critical"}


@pytest.mark.parametrize(("file", "options"), [("prometheus.yml", ()), ("agent.yml", ("--agent",))])
def test_promtool_reads_the_configuration(file: str, options: tuple[str, ...]) -> None:
    """The scrape configurations are valid."""
    told = _promtool("check", "config", "--syntax-only", *options, FOLDER / file)
    assert told.returncode == 0, told.stderr


def test_each_alert_fires_and_is_quiet(tmp_path: Path) -> None:
    """Each alert fires in a test with its trouble, is quiet there before, and quiet for the neighbour without it."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "alerts.yml").write_text(CASES.read_text())
    told = _promtool("test", "rules", tmp_path / "alerts.yml")
    assert told.returncode == 0, told.stderr
    checks = [check for case in yaml.safe_load(CASES.read_text())["tests"] for check in case["alert_rule_test"]]
    for fires in (True, False):
        assert {c["alertname"] for c in checks if ("exp_alerts" in c) is fires} == {r["alert"] for r in _alerts()}
