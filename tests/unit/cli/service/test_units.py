"""The units of agent and server: valid, hardened, and every capability has a reason."""

import re
import subprocess
from pathlib import Path

import pytest

from scope_cli.configuration.daemons import DAEMONS
from scope_cli.service.files import Service, own_program, why_hidden

ROOT = Path(__file__).parents[4]
MOST_EXPOSED = {"agentd": 30, "server": 15}  # tenths, as systemd-analyze takes it: 0 is best, 100 worst


@pytest.fixture(params=list(DAEMONS))
def service(request: pytest.FixtureRequest) -> Service:
    return Service(DAEMONS[request.param])


@pytest.fixture
def unit(service: Service, tmp_path: Path) -> Path:
    """The unit as it is installed for this checkout."""
    file = tmp_path / service.unit.name
    file.write_text(service.unit_text(own_program()))
    return file


def test_systemd_accepts_it(unit: Path) -> None:
    """systemd knows every line of the unit."""
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert unit.name not in verified.stderr, verified.stderr
    assert verified.returncode == 0, verified.stderr


def test_it_is_hardened(service: Service, unit: Path) -> None:
    """systemd's own rating of the exposure is 3.0 or less for the agent, which traces, and 1.5 for the server."""
    most = MOST_EXPOSED[service.daemon.name]
    command: list[str | Path] = [
        "systemd-analyze",
        "security",
        "--offline=true",
        f"--threshold={most}",
        "--no-pager",
        unit,
    ]
    rated = subprocess.run(command, capture_output=True, text=True)
    assert "Overall exposure level" in rated.stdout, rated.stderr
    assert rated.returncode == 0, rated.stdout


def test_each_capability_has_its_reason(service: Service) -> None:
    """No other capability can be had than those that are given, and a comment says what each is for."""
    text = service.unit_text(own_program())
    sets = {name: set(value.split()) for name, value in re.findall(r"(?m)^(Ambient|CapabilityBounding)\w+=(.*)$", text)}
    reasons = set(re.findall(r"(?m)^#   (CAP_\w+)  +\S", text))
    assert sets["CapabilityBounding"] == sets.get("Ambient", set()) == reasons


def test_it_waits_for_what_the_daemon_tells(service: Service) -> None:
    """Ready is what the daemon says is ready; a stuck one is restarted."""
    text = service.unit_text(own_program())
    assert {"Type=notify", "WatchdogSec=30", "Restart=always"} <= set(text.splitlines())


def test_the_unit_is_the_one_in_deploy(service: Service) -> None:
    """There is one copy; only the path of the program is filled in."""
    packaged = (ROOT / "deploy/systemd" / service.unit.name).read_text()
    assert service.unit_text(Path("/usr/bin/scope")) == packaged
    assert service.unit_text(Path('/opt/a "b" 5%$/scope')) == packaged.replace(
        "ExecStart=/usr/bin/scope", r'ExecStart="/opt/a \"b\" 5%%$$/scope"'
    )


def test_a_program_that_services_cannot_see_is_told() -> None:
    """Programs below directories that the units hide are told, with the remedy."""
    assert why_hidden(Path("/home/me/venv/bin/scope")) == (
        "/home/me/venv/bin/scope is below /home, which services do not see; install SCOPE below /opt or /usr/local"
    )
