"""Agent and server as services of a real systemd, which boots beside the host: see booted.py and services_script.py."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.booted import run_booted

from scope_bpf.binding.capability import SET_ASIDE

UNITS = Path(__file__).parents[2] / "deploy/systemd"
CAPABILITIES = {  # include/uapi/linux/capability.h
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYSLOG": 34,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
    "CAP_CHECKPOINT_RESTORE": 40,
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the script saw in the booted systemd."""
    script, folder = Path(__file__).with_name("services_script.py"), tmp_path_factory.mktemp("booted")
    own_network = ("unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")  # nginx has its usual ports
    return json.loads(run_booted(script, folder, inside=own_network))


@pytest.mark.timeout(600)
def test_the_server_is_ready_when_its_database_is(seen: Any) -> None:
    """Without a database the service is starting, and says for what it waits; with one it runs, in the same process."""
    assert seen["server without a database"] == ["activating", "start"]
    assert seen["server"] == ["running", "Running", "0"]


def test_nginx_is_in_front_of_the_server(seen: Any) -> None:
    """As a service of Debian's, with the files that were installed; without them it goes on."""
    assert seen["nginx"] == seen["nginx without it"] == ["active", "running"]
    assert json.loads(seen["health"]) == {"healthy": True}


def test_the_agent_starts_and_records(seen: Any) -> None:
    """Under all restrictions of its unit, it records, pins its counters and knows what its tasks cost."""
    assert seen["agent"] == ["active", "running", "Running", "0"]
    assert seen["pins"] == 2


def test_they_run_with_what_they_need_only(seen: Any) -> None:
    """Each has its own user. The agent has the listed capabilities, some of them not effective; the server none."""
    listed = re.search(r"(?m)^AmbientCapabilities=(.*)$", (UNITS / "scope-agentd.service").read_text())
    assert listed
    permitted = sum(1 << CAPABILITIES[name] for name in listed[1].split())
    effective = permitted & ~sum(1 << number for number in SET_ASIDE)
    assert seen["scope-agentd runs as"] == ["scope-agentd", "1", "2", f"{permitted:016x}", f"{effective:016x}"]
    assert seen["scope-server runs as"] == ["scope-server", "1", "2", f"{0:016x}", f"{0:016x}"]


def test_a_stuck_agent_is_started_again(seen: Any) -> None:
    """An agent without a sign of life is killed by the watchdog; the next one goes on with its tasks."""
    assert seen["after the watchdog"] == [True, True]


def test_they_stop_in_order(seen: Any) -> None:
    """A stop succeeds."""
    assert seen["stopped"] == [["inactive", "success", "0"]] * 2


def test_uninstalling_leaves_data_only(seen: Any) -> None:
    """State, configuration and nginx's certificate are left; with --purge nothing, neither files nor users."""
    state = ["/var/lib/scope-agentd", "/var/lib/scope-server"]
    assert [path for path in seen["left"] if path.count("/") == 3] == ["/etc/nginx/scope", *state]
    others = [path for path in seen["left"] if not path.startswith(("/var/lib/", "/etc/nginx/scope", "/etc/scope"))]
    assert [path for path in others if not path.endswith(".service.d")] == []
    assert [path for path in seen["left --purge"] if not path.endswith(".service.d")] == []
    assert seen["users left"] == []
