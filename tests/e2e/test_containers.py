"""Containers from the kernel to the answers of the server."""

import json
import os
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
