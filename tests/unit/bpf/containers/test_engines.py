"""Names and images of containers, from the files and sockets of their engines."""

import json
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from typing import Any

import pytest

from scope_bpf.containers.containers import Containers
from scope_bpf.containers.engines.container import Container
from scope_bpf.containers.engines.lookup import find

ID = "0123456789ab" + "cd" * 26
POD = "4711" * 16
OF_DOCKER = {
    "Name": "/shop-web-1",
    "Config": {"Image": "nginx:1", "Labels": {"com.docker.compose.service": "web"}},
}
OF_KUBERNETES = {
    "io.kubernetes.container.name": "web",
    "io.kubernetes.pod.name": "web-768c6f9745-mn4bb",
    "io.kubernetes.pod.namespace": "shop",
}
OF_CONTAINERD = {
    "io.kubernetes.cri.container-name": "web",
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.image-name": "docker.io/library/nginx:latest",
    "io.kubernetes.cri.sandbox-name": "web-768c6f9745-mn4bb",
    "io.kubernetes.cri.sandbox-namespace": "shop",
}
OF_SANDBOX = {
    "io.kubernetes.cri.container-type": "sandbox",
    "io.kubernetes.cri.sandbox-name": "web-768c6f9745-mn4bb",
    "io.kubernetes.cri.sandbox-namespace": "shop",
}
OF_PODMAN = {
    "id": ID,
    "names": ["web"],
    "image": "d7af31210b28",
    "metadata": '{"image-name":"quay.io/nginx:1","image-id":"d7af31210b28","name":"web","created-at":1711141194}',
}
STORAGE = "home/ann/.local/share/containers/storage"
OF_K3S, OF_K0S, OF_MICROK8S = "run/k3s", "run/k0s", "var/snap/microk8s/common/run"
OF_PODMANS_API = {  # pkg/api/handlers/compat/containers.go
    "Id": ID,
    "Name": "/web",
    "Image": "sha256:d7af31210b28",
    "Config": {"Image": "docker.io/library/nginx:latest", "Labels": None},
    "HostConfig": {"CgroupParent": ""},
}
TASKS = "run/containerd/io.containerd.runtime.v2.task"
WEB = ("web-768c6f9745-mn4bb", "shop")


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        (f"var/lib/docker/containers/{ID}/config.v2.json", OF_DOCKER, Container("shop-web-1", "nginx:1")),
        (
            f"var/lib/docker/containers/{ID}/config.v2.json",
            {
                "Name": "/k8s_web_web-768c6f9745-mn4bb_shop_1_0",
                "Config": {"Image": "sha256:1", "Labels": OF_KUBERNETES},
            },
            Container("web", "sha256:1", *WEB),
        ),
        (
            f"{TASKS}/k8s.io/{ID}/config.json",
            {"annotations": OF_CONTAINERD},
            Container("web", "docker.io/library/nginx:latest", *WEB),
        ),
        *(
            (
                f"{folder}/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json",
                {"annotations": OF_CONTAINERD},
                Container("web", "docker.io/library/nginx:latest", *WEB),
            )
            for folder in (OF_K3S, OF_K0S, OF_MICROK8S)
        ),
        (f"{TASKS}/k8s.io/{ID}/config.json", {"annotations": OF_SANDBOX}, Container("POD", "", *WEB)),
        (f"{TASKS}/default/{ID}/config.json", {"annotations": {"nerdctl/name": "web"}}, Container("web")),
        (
            f"run/containers/storage/overlay-containers/{ID}/userdata/config.json",
            {"annotations": {**OF_KUBERNETES, "io.kubernetes.cri-o.ImageName": "quay.io/nginx:1"}},
            Container("web", "quay.io/nginx:1", *WEB),
        ),
        (
            "var/lib/containers/storage/overlay-containers/containers.json",
            [{"id": POD}, OF_PODMAN],
            Container("web", "quay.io/nginx:1"),
        ),
        (
            "run/containers/storage/overlay-containers/volatile-containers.json",
            [OF_PODMAN],
            Container("web", "quay.io/nginx:1"),
        ),
    ],
    ids=[
        *("docker", "docker in kubernetes", "containerd", "k3s", "k0s", "microk8s", "sandbox", "nerdctl", "cri-o"),
        *("podman", "podman --rm"),
    ],
)
def test_files_of_engines(tmp_path: Path, path: str, content: Any, expected: Container) -> None:
    """Name, image, pod and namespace are those that each engine writes; of another container, nothing is known."""
    write(tmp_path / path, content)
    assert find(tmp_path, ID) == expected
    assert find(tmp_path, ID[::-1]) is None


def test_pods_of_podman(tmp_path: Path) -> None:
    """The name of a container's pod is in the database, which is read while Podman has it locked, and never written."""
    write(tmp_path / "var/lib/containers/storage/overlay-containers/containers.json", [OF_PODMAN])
    path = tmp_path / "var/lib/containers/storage/db.sql"
    with closing(sqlite3.connect(path)) as podman:
        podman.execute("CREATE TABLE PodConfig (ID TEXT PRIMARY KEY NOT NULL, Name TEXT, JSON TEXT)")
        podman.execute("CREATE TABLE ContainerConfig (ID TEXT PRIMARY KEY NOT NULL, Name TEXT, PodID TEXT, JSON TEXT)")
        podman.execute("INSERT INTO PodConfig VALUES (?, 'shop', '')", [POD])
        podman.execute("INSERT INTO ContainerConfig VALUES (?, 'web', ?, '')", [ID, POD])
        podman.commit()
        podman.execute("BEGIN EXCLUSIVE")
        before = path.read_bytes()
        assert find(tmp_path, ID) == Container("web", "quay.io/nginx:1", "shop")
    assert path.read_bytes() == before
    path.write_bytes(b"SQLite format 3\0" + bytes(4080))
    assert find(tmp_path, ID) == Container("web", "quay.io/nginx:1")


@pytest.mark.parametrize(
    ("state", "content"),
    [
        (f"crun/{ID}/status", {"bundle": f"/{STORAGE}/overlay-containers/{ID}/userdata", "cgroup-path": "/user.slice"}),
        (f"runc/{ID}/state.json", {"config": {"labels": [f"bundle=/{STORAGE}/overlay-containers/{ID}/userdata"]}}),
    ],
    ids=["crun", "runc"],
)
def test_containers_of_a_user(tmp_path: Path, state: str, content: Any) -> None:
    """A user's runtime tells where Podman lists the user's containers. Only a process in the user's slice is looked up
    there, and the user's database, which may be anything, is not opened."""
    write(tmp_path / "run/user/1000" / state, content)
    write(tmp_path / STORAGE / "overlay-containers/containers.json", [OF_PODMAN])
    (tmp_path / STORAGE / "db.sql").write_bytes(b"SQLite format 3\0" + bytes(4080))
    scope = f"user.slice/libpod-{ID}.scope/container\n"
    containers = Containers(tmp_path)
    found = containers.of(f"0::/user.slice/user-1000.slice/user@1000.service/{scope}")
    assert (found.container_name, found.image, found.unit) == ("web", "quay.io/nginx:1", "user@1000.service")
    for other in ("user.slice/user-1001.slice/user@1001.service", "machine.slice"):
        assert containers.of(f"0::/{other}/{scope}").container_name == ""


@pytest.mark.parametrize(("size", "expected"), [(1 << 19, Container("web", "quay.io/nginx:1")), (2 << 20, None)])
def test_a_large_file_of_a_user(tmp_path: Path, size: int, expected: Container | None) -> None:
    """A file that a user may write is read up to 1 MiB only, so that it does not fill the agent's memory."""
    listed = tmp_path / STORAGE / "overlay-containers/containers.json"
    write(tmp_path / f"run/user/1000/crun/{ID}/status", {"bundle": f"/{STORAGE}/overlay-containers/{ID}/userdata"})
    write(listed, [OF_PODMAN, {"flags": "x" * size}])
    assert find(tmp_path, ID, "1000") == Container("web", "quay.io/nginx:1")
    os.chown(listed, 1000, 1000)
    assert find(tmp_path, ID, "1000") == expected


@pytest.mark.parametrize(
    "content", [b"", b'{"Name": "/we', b"[]", b'{"Name": 7, "Config": []}', b"\xff\xfe", b"[" * 10**5]
)
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    """A file that is half written, or that is something else, names nothing, and is no error."""
    for path in (f"var/lib/docker/containers/{ID}/config.v2.json", f"{TASKS}/k8s.io/{ID}/config.json"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(content)
    assert find(tmp_path, ID) in (None, Container())


def test_a_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    """A named pipe, whose opening would wait for a writer, is not opened."""
    path = tmp_path / f"var/lib/docker/containers/{ID}/config.v2.json"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert find(tmp_path, ID) is None


class Engine(UnixStreamServer):
    """A socket that answers about a container as Docker's does, and Podman's for Docker's clients."""

    def __init__(self, path: Path, told: Any) -> None:
        class Handler(BaseHTTPRequestHandler):
            def address_string(self) -> str:
                return "unix"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                found = self.path == f"/containers/{ID}/json"
                body = json.dumps(told if found else {"message": "No such container"}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(str(path), Handler)


@contextmanager
def engine(path: Path, told: Any) -> Iterator[None]:
    path.parent.mkdir(parents=True)
    with Engine(path, told) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "told", "expected"),
    [
        ("run/docker.sock", OF_DOCKER, Container("shop-web-1", "nginx:1")),
        ("run/podman/podman.sock", OF_PODMANS_API, Container("web", "docker.io/library/nginx:latest")),
    ],
    ids=["docker", "podman"],
)
def test_an_engine_is_asked(tmp_path: Path, path: str, told: Any, expected: Container) -> None:
    """A container without files where they usually are is asked for on the engine's socket."""
    with engine(tmp_path / path, told):
        assert find(tmp_path, ID) == expected
        assert find(tmp_path, ID[::-1]) is None


def test_an_engine_that_does_not_answer(tmp_path: Path) -> None:
    """An engine that accepts and stays silent, or has died, is given up."""
    (tmp_path / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "run/docker.sock"))
        silent.listen()
        assert find(tmp_path, ID) is None
    assert find(tmp_path, ID) is None


def test_names_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that the engine does not know yet gets its name later, and keeps it after its end."""
    now = [0.0]
    monkeypatch.setattr("scope_bpf.containers.containers.time.monotonic", lambda: now[0])
    containers, text = Containers(tmp_path), f"0::/docker/{ID}\n"
    path = tmp_path / f"var/lib/docker/containers/{ID}/config.v2.json"
    assert (containers.of(text).container_id, containers.of(text).container_name) == (ID, "")
    write(path, OF_DOCKER)
    now[0] += 10
    assert containers.of(text).container_name == "shop-web-1"
    path.unlink()
    now[0] += 1000
    assert (containers.of(text).container_name, containers.of(text).image) == ("shop-web-1", "nginx:1")


def test_what_is_no_container_is_asked_for_less_and_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cgroup that no engine knows is asked for again after as long as it has been known, up to five minutes."""
    now, asked = [0.0], []

    def id_of(_: Path, path: str) -> str:
        asked.append((now[0], path))
        return ""

    monkeypatch.setattr("scope_bpf.containers.containers.time.monotonic", lambda: now[0])
    monkeypatch.setattr("scope_bpf.containers.containers.runtimes.id_of", id_of)
    containers = Containers(tmp_path)
    for second in range(2000):
        now[0] = float(second)
        containers.of("0::/system.slice/cron.service\n")
    assert [at for at, _ in asked] == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 812, 1112, 1412, 1712]
