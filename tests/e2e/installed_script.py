"""Runs in namespaces of its own, see test_installed_fleet.py: six machines on one bridge, two with servers that
`scope install` has set up, three with agents, one with PostgreSQL. Prints what it saw as JSON."""

import atexit
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scope_server.store.postgres import PrivatePostgres

NET = "10.77.0"
NAME = "scope.example.org"
PROGRAM = str(Path(sys.executable).with_name("scope"))
PASSWORD = "correct horse battery"
FOLDER = Path(sys.argv[1])
FIRST, SECOND = map(int, sys.argv[2:])  # calls of the watched program, before and after a server has gone
seen: dict[str, Any] = {}

# What a machine writes goes to layers of its own, above this host's files.
MOUNTS = """\
set -eu
mount --make-rprivate /
for part in etc var; do
    mkdir -p $1/$part $1/.$part
    mount -t overlay -o lowerdir=/$part,upperdir=$1/$part,workdir=$1/.$part overlay /$part
done
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
rm -rf /etc/scope /var/lib/scope*
echo $2 > /etc/machine-id
echo "$3 $4" >> /etc/hosts
hostname $5
ip link set lo up
exec sleep infinity
"""


class Machine:
    """Namespaces of network, files and host name."""

    def __init__(self, number: int, name: str) -> None:
        self.address, self.name = f"{NET}.{number}", name
        given = [str(FOLDER / name), f"{number:032x}", f"{NET}.1", NAME, name]
        self._holder = spawn("unshare", "--net", "--mount", "--uts", "sh", "-c", MOUNTS, "sh", *given)
        until(f"the files of {name}", lambda: self.run("hostname").strip() == name)
        pid = str(self._holder.pid)
        call("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", pid)
        call("ip", "link", "set", f"to-{name}", "master", "bridge", "up")
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def within(self, *words: str) -> list[str]:
        """A command that runs on the machine."""
        return ["nsenter", f"--target={self._holder.pid}", "--net", "--mount", "--uts", "--", *words]

    def run(self, *words: str) -> str:
        """Runs a command on the machine; returns what it printed."""
        return call(*self.within(*words))

    def scope(self, *words: str, given: str = "") -> str:
        """Runs `scope` on a server's machine."""
        return call(*self.within("env", "SCOPE_STATE=/var/lib/scope-server", PROGRAM, *words), given=given)

    def serve(self, *words: str) -> "subprocess.Popen[bytes]":
        """Starts a command on the machine, which goes on."""
        return spawn(*self.within(*words))


def spawn(*words: str) -> "subprocess.Popen[bytes]":
    with (FOLDER / "log").open("ab") as log:
        return subprocess.Popen(["setpriv", "--pdeathsig=KILL", *words], stdout=log, stderr=log)


def call(*words: str, given: str = "") -> str:
    """What a command prints."""
    ran = subprocess.run(words, input=given, capture_output=True, text=True, timeout=120)
    if ran.returncode:
        raise RuntimeError(f"{words}: {ran.stderr}{ran.stdout}")
    return ran.stdout


def until(what: str, condition: Callable[[], Any]) -> Any:
    end, failed = time.monotonic() + 90, ""
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except RuntimeError as error:
            failed = str(error)
        time.sleep(0.1)
    raise RuntimeError(f"waited in vain for {what}: {failed}\n{(FOLDER / 'log').read_text()[-8000:]}")


def serve_front() -> None:
    """Starts nginx on the first machine. However the script ends, nginx ends its workers: its own death leaves them."""
    front = first.serve("nginx", "-g", "daemon off;")
    atexit.register(front.wait, 60)
    atexit.register(front.terminate)  # the last one is called first


def json_of(machine: Machine, *words: str) -> Any:
    return json.loads(machine.scope(*words, "--json"))


def curl(machine: Machine, path: str, *options: str) -> Any:
    """An answer of the API, through nginx."""
    trusts = ["--cacert", str(FOLDER / "people.pem")]
    return json.loads(
        machine.run("curl", "--silent", "--fail", "--retry", "5", *trusts, *options, f"https://{NAME}{path}")
    )


def work(calls: int) -> None:
    """The watched program, which is on no machine of ours: all agents see it, since the kernel is one."""
    code = f"import os\nopen('/proc/self/comm', 'w').write('watched')\nfor _ in range({calls}): os.getppid()"
    call(sys.executable, "-c", code)


def counted(asked: Machine) -> dict[str, int]:
    """How many calls each agent has recorded, by machine."""
    path = "/api/v1/aggregates/syscall?by=machine&cells=count&where=name%20%3D%20getppid"
    groups = curl(asked, path, "--header", f"Authorization: Bearer {token}")["groups"]
    return {str(group["key"]): group["values"]["count"] for group in groups}


def enough(found: dict[str, int], calls: int) -> dict[str, int]:
    """The counts, if all three have at least so many; else nothing."""
    return found if len(found) == 3 and min(found.values()) >= calls else {}


def database() -> str:
    """PostgreSQL on the bridge; its connection string."""
    postgres = PrivatePostgres(FOLDER / "pg", {"fsync": "off", "listen_addresses": f"{NET}.254"})
    postgres.start()
    with (FOLDER / "pg/data/pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {NET}.0/24 trust\n")
    os.kill(postgres.pid or 0, 1)
    return f"host={NET}.254 port=5432 dbname=scope user=scope"


call("ip", "link", "set", "lo", "up")
# With an address of its own: else it takes over a lower one of a new machine, and others look for it at the old one.
call("ip", "link", "add", "bridge", "address", "02:00:00:00:00:fe", "type", "bridge")
call("ip", "addr", "add", f"{NET}.254/24", "dev", "bridge")
call("ip", "link", "set", "bridge", "up")
conninfo = database()

# Two servers, the first with Redis and nginx.
first, second = Machine(1, "first"), Machine(2, "second")
first.serve("redis-server", "--bind", first.address, "--protected-mode", "no", "--save", "", "--port", "6379")
fleet = ("--database", conninfo, "--redis", f"redis://{first.address}:6379")
first.scope("install", "server", *fleet, "--nginx", NAME, "--server", second.address)
second.scope("install", "server", *fleet, "--advertise", NAME, "--proxies", first.address)
shutil.copytree(FOLDER / "first/var/lib/scope-server/authority", FOLDER / "authority")
second.run("cp", "-r", str(FOLDER / "authority"), "/var/lib/scope-server/authority")
(FOLDER / "people.pem").write_text(first.run("cat", "/etc/nginx/scope/tls/certificate.pem"))
first.serve(PROGRAM, "server")
other = second.serve(PROGRAM, "server")
first.run("nginx", "-t")
serve_front()
for each in (first, second):
    until(f"the server on {each.name}", lambda each=each: json_of(each, "nodes") == [])

# Three agents, which join through nginx.
agents = [Machine(number, f"agent{number}") for number in (11, 12, 13)]
for agent in agents:
    join_token = first.scope("admin", "join-token").strip()
    agent.run("env", f"SCOPE_JOIN_TOKEN={join_token}", PROGRAM, "install", "agentd", "--join", f"{NAME}:8474")
    agent.serve(PROGRAM, "agentd", "--examine-after-s", "1e6")
until("three sessions", lambda: [node["connected"] for node in json_of(first, "nodes")] == [True] * 3)
first.scope("admin", "create-user", "ada@example.org", "--role", "admin", given=PASSWORD)
login = json.dumps({"email": "ada@example.org", "password": PASSWORD})
token = curl(agents[0], "/api/v1/auth/login", "--json", login)["access_token"]
seen["health"] = curl(agents[0], "/api/v1/health")
for agent in agents:
    second.scope("start", agent.name, "syscalls", "--comm", "watched")
until("tasks", lambda: [task["state"] for task in json_of(second, "tasks")] == ["running"] * 3)
work(FIRST)
seen["first"] = until("rows", lambda: enough(counted(agents[1]), FIRST))

# The server without nginx goes; its agents go on with the other.
other.kill()
other.wait()
until("three sessions again", lambda: [node["connected"] for node in json_of(first, "nodes")] == [True] * 3)
work(SECOND)
seen["second"] = until("rows", lambda: enough(counted(agents[2]), FIRST + SECOND))
seen["books"] = [
    [books["stream"], books["emitted"], books["stored"], books["lost"]]
    for task in curl(agents[0], "/api/v1/tasks", "--header", f"Authorization: Bearer {token}")["tasks"]
    for books in task["streams"]
]
print(json.dumps(seen))
