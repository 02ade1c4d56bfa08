"""Containers from the kernel to the answers of the server."""

import json
import os
import select
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from tests.containers import CALLS, IMAGE, SCRIPT, Container
from tests.e2e.conftest import Up, until

NAME = f"scope-test-{os.getpid()}"
OF_CRI = {
    "io.kubernetes.cri.container-name": "web's",
    "io.kubernetes.cri.image-name": IMAGE,
    "io.kubernetes.cri.sandbox-name": NAME,
    "io.kubernetes.cri.sandbox-namespace": "shop",
}


def test_a_container_is_found_by_every_way(up: Up, tmp_path: Path) -> None:
    """Rows of a container's processes, of which most have ended when they are read, have its name in every answer."""
    gate = tmp_path / "rootfs/gate"
    pod = f"pod = '{NAME}'"

    def execs(*words: str) -> list[dict[str, Any]]:
        said = up.scope("events", "exec", "--container", "web's", "--since", "-5m", "--json", *words)
        assert said.returncode == 0, said.stderr
        return [json.loads(line) for line in said.stdout.splitlines()]

    with Container(tmp_path, NAME, f"read go < /gate; {SCRIPT}", **OF_CRI) as container:
        os.mkfifo(gate)
        container.start()
        until(lambda: bool(execs("--where", pod)))
        gate.write_text("go\n")
        until(lambda: len([row for row in execs("--where", pod) if row["args"][1:] == ["true"]]) == CALLS)
    rows = execs("--where", f"{pod} and image = '{IMAGE}' and namespace = 'shop'")
    assert {row["container"] for row in rows} == {"web's"}
    assert len([row for row in rows if row["args"][1:] == ["true"]]) == CALLS
    counted = up.scope("aggregates", "exec", "--by", "container", "--where", f"{pod} and comm = busybox", "--json")
    assert counted.returncode == 0, counted.stderr
    (group,) = json.loads(counted.stdout)["groups"]
    assert (group["key"]["container"], group["values"]["count"]) == ("web's", CALLS + 1)
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        query = "SELECT DISTINCT container, container_id, image, pod, namespace FROM scope.processes WHERE pod = %s"
        assert connection.execute(query, [NAME]).fetchall() == [("web's", NAME, IMAGE, NAME, "shop")]


def test_a_task_of_one_container(up: Up, tmp_path: Path) -> None:
    """A task that is started for a container, by its name, records that container on the agent's machine and nothing
    of another one; without such a container none is started."""
    sends = f"trap : USR1; read go < /gate; i=0; while [ $i -lt {CALLS} ]; do kill -USR1 $$; i=$((i + 1)); done"
    container, pids = "io.kubernetes.cri.container-name", []
    with ExitStack() as stack:
        for role in ("wanted", "other"):
            (tmp_path / role).mkdir()
            made = Container(tmp_path / role, f"{NAME}-{role}", sends, **OF_CRI | {container: f"{NAME} {role}"})
            stack.enter_context(made)
            os.mkfifo(made.bundle / "rootfs/gate")
            made.start()
            pids.append(made.pid)
        task = up.scope("start", "local", "signals", "--container", f"{NAME} wanted").stdout.strip()
        until(lambda: up.client.get("tasks", task)["state"] == "running")
        for role, pid in zip(("wanted", "other"), pids, strict=True):
            ended = os.pidfd_open(pid)
            (tmp_path / role / "rootfs/gate").write_text("go\n")
            select.select([ended], [], [])
            os.close(ended)
        assert up.scope("stop", task).returncode == 0
        until(lambda: all(each["under_way"] == 0 for each in up.client.get("tasks", task)["streams"]))
    assert up.client.get("tasks", task)["target"] == {"container": f"{NAME} wanted"}
    where = f"namespace = shop and pod = '{NAME}' and signal = 10"
    said = up.scope("events", "signal", "--where", where, "--since", "-1h", "--json")
    rows = [json.loads(line) for line in said.stdout.splitlines()]
    assert [(row["pid"], row["sender_pid"], row["container"]) for row in rows] == [
        (pids[0], pids[0], f"{NAME} wanted")
    ] * CALLS
    gone = up.scope("start", "local", "signals", "--container", f"{NAME} wanted")
    assert gone.returncode == 2
    assert f"no cgroup v2 belongs to a container '{NAME} wanted'" in gone.stderr
