"""Containers of processes in rows: real ones, made by runc and crun, also after their end."""

import json
import os
import select
import shlex
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.containers import CALLS, IMAGE, SCRIPT, Container
from tests.probes.recording import Record

from scope_bpf.capture.cgroup_watch import CgroupWatch
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.memberships import Memberships
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.containers.containers import Containers, cgroups_of
from scope_bpf.containers.paths import unified
from scope_bpf.host import cgroup_root
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

SCOPE = Path(sys.executable).with_name("scope")
ID = f"{os.getpid():012x}" + "cd" * 26
OF_CRI = {
    "io.kubernetes.cri.container-name": "web",
    "io.kubernetes.cri.image-name": IMAGE,
    "io.kubernetes.cri.sandbox-name": "web-768c6f9745-mn4bb",
    "io.kubernetes.cri.sandbox-namespace": "shop",
}


@pytest.fixture
def name() -> str:
    return f"scope-test-{os.getpid()}"


@pytest.fixture(params=["runc", "crun"])
def runtime(request: pytest.FixtureRequest) -> str:
    if request.param == "crun" and not shutil.which("crun"):
        pytest.skip("crun is not installed; `deploy/install-packages.sh test` installs it")
    return str(request.param)


def traced(*words: str) -> list[dict[str, Any]]:
    """The exec rows of a trace."""
    command = [str(SCOPE), "trace", "process", *words]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return [row for row in rows if row["type"] == "exec"]


def test_rows_have_the_container_of_their_process(tmp_path: Path, name: str, runtime: str) -> None:
    """Each exec in a container has its name, those of the runtime outside do not; filters find the same by what is
    known."""
    filters = ((), ("--where", f"image = '{IMAGE}' and container = web and pod ~ 'web-*' and namespace = shop"))
    for number, where in enumerate(filters):
        bundle, script = tmp_path / str(number), f"{SCRIPT}; echo > /done"
        container = Container(bundle, f"{name}-{number}", script, runtime=runtime, **OF_CRI)
        create, start = (shlex.join(container.command(word)) for word in ("create", "start"))
        done = container.bundle / "rootfs/done"
        script = f"{create} < /dev/null > /dev/null && {start} && until [ -e {done} ]; do sleep 0.05; done"
        try:
            rows = traced("--json", *where, "--", "sh", "-c", script)
        finally:
            container.delete()
        # The runtime's own last exec may be in the container's cgroup already.
        found = Counter(row["container"] for row in rows if row["comm"] == "busybox")
        assert found == {"web": CALLS + 1}
        assert {row["container"] for row in rows if row["comm"] in ("sh", "sleep")} == (set() if where else {None})


def test_a_container_as_target(tmp_path: Path, name: str, runtime: str) -> None:
    """A target by a container's name is that container alone: each exec in it is recorded, no other."""
    probe = probe_named("process")
    with Container(tmp_path, name, SCRIPT, runtime=runtime, **OF_CRI) as container:
        ended = os.pidfd_open(container.pid)
        with Tracer(probe, parse_options(probe.options, {}), Target(container="web")) as tracer:
            tracer.start()
            container.start()
            select.select([ended], [], [])
            batches = [batch for batch in tracer.finish() if batch.stream.name == "exec"]
        os.close(ended)
    rows = [row for batch in batches for row in to_arrow(batch).to_pylist()]
    assert Counter(row["comm"] for row in rows) == {"busybox": CALLS + 1}


def test_a_container_that_has_ended_before_its_rows_are_read(tmp_path: Path, record: Record, runtime: str) -> None:
    """A container of 50 ms, whose processes and cgroups are gone when its rows are read, keeps its name."""
    engine, bundle = tmp_path / "engine", tmp_path / "bundle"
    folder = engine / "var/lib/docker/containers" / ID
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text(json.dumps({"Name": "/short", "Config": {"Image": IMAGE}}))
    bundle.mkdir()
    container = Container(bundle, ID, "/bin/busybox sleep 0.05", cgroup=f"/docker/{ID}", runtime=runtime)
    memberships = Memberships(Containers(engine))
    with memberships.watch:
        recording = record("process", container.command("run"), poll=False)
        root = cgroup_root()
        assert root and not (root / "docker" / ID).exists()
        (batch,) = recording.batches["exec"]
        rows = memberships.joined(batch, ("container", "image")).to_pylist()
    inside = [(row["container"], row["image"]) for row in rows if row["comm"] == "busybox"]
    assert inside == [("short", IMAGE)] * 2


def test_the_first_row_of_a_container_has_its_name(tmp_path: Path, runtime: str) -> None:
    """A row of the runtime in a container, of before the engine knows it, was read just before: the program's first row
    has the container's name all the same, though the watch has not asked again."""
    engine, bundle = tmp_path / "engine", tmp_path / "bundle"
    folder = engine / "var/lib/docker/containers" / ID
    folder.mkdir(parents=True)
    bundle.mkdir()
    memberships, root = Memberships(Containers(engine)), cgroup_root()
    memberships.watch._look = lambda _: False
    assert root
    with memberships.watch, Container(bundle, ID, "true", cgroup=f"/docker/{ID}", runtime=runtime) as container:
        start_ns, inside = stat_of(container.pid).start_ticks * TICK_NS, (root / "docker" / ID).stat().st_ino
        row = pa.record_batch({"pid": [container.pid], "start_ns": [start_ns], "cgroup_id": [inside]})

        def named() -> Any:
            return memberships.joined(row, ("container",))["container"].to_pylist()

        assert named() == [ID[:12]]
        (folder / "config.v2.json").write_text(json.dumps({"Name": "/late", "Config": {"Image": IMAGE}}))
        assert named() == ["late"]


@pytest.mark.parametrize("runtime", ["crun"], indirect=True)
def test_a_container_of_a_users_podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    """A container that crun runs for a user, in the user's slice, has the name in the storage that its bundle is in."""
    user = 1_000_000 + os.getpid()
    storage, folder = tmp_path / "overlay-containers", Path(f"/run/user/{user}")
    root, cgroup = cgroup_root(), f"/user-{user}.slice/libpod-{ID}.scope"
    assert root
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    folder.mkdir(parents=True)
    try:
        with Container(storage / ID / "userdata", ID, "true", cgroup=cgroup, runtime=runtime) as container:
            told = json.dumps({"image-name": IMAGE})
            (storage / "containers.json").write_text(json.dumps([{"id": ID, "names": ["web"], "metadata": told}]))
            found = Containers().of(cgroups_of(container.pid))
    finally:
        shutil.rmtree(folder)
        (root / f"user-{user}.slice").rmdir()
    assert (found.cgroup, found.container_name, found.image) == (cgroup, "web", IMAGE)


def test_a_container_whose_engine_forgets_it(tmp_path: Path, name: str, runtime: str) -> None:
    """A container that nobody asks about before it and its engine's files are gone has its name all the same: the watch
    asks by itself. Here, it runs until the watch has."""
    asked, memberships = threading.Event(), Memberships(Containers())
    look = memberships.watch._look

    def looks(path: str) -> bool:
        found = look(path)
        if found:
            asked.set()
        return found

    memberships.watch._look = looks
    with memberships.watch:
        with Container(tmp_path, name, "read go < /gate", runtime=runtime, **OF_CRI) as container:
            os.mkfifo(container.bundle / "rootfs/gate")
            container.start()
            root, path = cgroup_root(), unified(cgroups_of(container.pid))
            assert root
            id_ = (root / path.strip("/")).stat().st_ino
            assert asked.wait(60)
            (container.bundle / "rootfs/gate").write_text("go\n")
        assert not (root / path.strip("/")).exists()
        found = memberships.of(4_194_305, 1, id_)
    assert (found.container_name, found.image, found.pod, found.namespace) == (
        "web",
        IMAGE,
        "web-768c6f9745-mn4bb",
        "shop",
    )


def test_a_process_that_has_ended_stays_in_its_container(tmp_path: Path, name: str, runtime: str) -> None:
    """A row that was added up before its process got into a container may come last: it does not take it out again."""
    memberships, root = Memberships(Containers()), cgroup_root()
    assert root
    outside = root.stat().st_ino
    with memberships.watch:
        with Container(tmp_path, name, "read go < /gate", runtime=runtime, **OF_CRI) as container:
            os.mkfifo(container.bundle / "rootfs/gate")
            container.start()
            pid, start_ns = container.pid, stat_of(container.pid).start_ticks * TICK_NS
            inside = (root / unified(cgroups_of(pid)).strip("/")).stat().st_ino
            lives = [memberships.last(pid, start_ns, id_) for id_ in (outside, inside, outside)]
            (container.bundle / "rootfs/gate").write_text("go\n")
        ended = [memberships.last(pid, start_ns, id_) for id_ in (outside, inside)]
        assert memberships.of(pid, start_ns, outside).container_id == ""
    assert [found.container_name for found in lives + ended] == ["web"] * 5


def test_new_cgroups_are_looked_at_at_once() -> None:
    """Each new cgroup is looked at without a row of it, until all is known; its path is known after its end."""
    root = cgroup_root()
    assert root
    looked, done = Counter[str](), threading.Event()
    names = [f"scope-test-{os.getpid()}-{number}" for number in range(7)]

    def look(path: str) -> bool:
        looked[path] += 1
        if {f"/{name}" for name in names} <= {path for path, count in looked.items() if count >= 2}:
            done.set()
        return looked[path] >= 2

    watch = CgroupWatch(look)
    with watch, watch:
        ids = []
        for name in names:
            (root / name).mkdir()
            ids.append((root / name).stat().st_ino)
            (root / name).rmdir()
        assert done.wait(60)
        assert [watch.path(id_) for id_ in ids] == [f"/{name}" for name in names]
    assert [watch.path(id_) for id_ in ids] == [f"/{name}" for name in names]
    assert watch.path(1) == "/"
