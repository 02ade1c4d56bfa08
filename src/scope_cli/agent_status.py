"""`scope agentd status`: whether this machine's agent is in order."""

import re
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, build_opener

from scope_cli.printable import print_line

if TYPE_CHECKING:  # gRPC takes a while
    from scope_agentd.settings import Settings

_ANSWER_S = 5.0
_CONNECTED = re.compile(r"^scope_agent_connected (\S+)$", re.MULTILINE)
_WAITING = re.compile(r"^scope_agent_spool_records (\S+)$", re.MULTILINE)


def print_status(settings: "Settings") -> int:
    """Prints the status; returns 0 if the agent runs and is connected, else 1."""
    from scope_agentd.errors import NotJoined
    from scope_agentd.identity.membership import Membership

    try:
        member = Membership(settings.state_dir)
    except NotJoined as error:
        print_line(f"not joined: {error}")
        return 1
    found = _metrics(settings.metrics)
    connected = found is not None and _number(_CONNECTED, found) == 1
    if member.fleet.needs_token:
        print_line(f"needs a new token: {member.fleet.needs_token}")
    elif found is None:
        print_line(f"does not run, or not with its metrics at {settings.metrics}: start it with `scope agentd`")
    elif connected:
        print_line(f"connected to {settings.server or ', '.join(member.fleet.servers)}")
    else:
        print_line(f"not connected to {settings.server or ', '.join(member.fleet.servers)}; its log says why")
    print_line(f"machine {member.machine_id}, certificate until {member.credentials.holder.expires:%Y-%m-%d %H:%M} UTC")
    if found is not None:
        print_line(f"spool: {_number(_WAITING, found):,.0f} records wait")
    return 0 if connected and not member.fleet.needs_token else 1


def _metrics(address: str) -> str | None:
    """The running agent's metrics; None if none runs."""
    try:
        with build_opener(ProxyHandler({})).open(f"http://{address}/metrics", timeout=_ANSWER_S) as answer:
            return str(answer.read().decode())
    except (OSError, HTTPException, ValueError):
        return None


def _number(pattern: "re.Pattern[str]", metrics: str) -> float:
    found = pattern.search(metrics)
    return float(found[1]) if found else 0.0
