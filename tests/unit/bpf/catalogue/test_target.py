"""Converting targets to the conditions of the filter."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.catalogue import target as targets
from scope_bpf.catalogue.target import Target, target_of
from scope_bpf.containers.containers import Containers
from scope_bpf.errors import TargetNotFound
from scope_bpf.probes import probe_named
from scope_catalogue.errors import InvalidTarget

CONTAINER = "0123456789ab" + "cd" * 26


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of cgroups as container engines make it."""
    for path in (f"system.slice/docker-{CONTAINER}.scope/init.scope", "user.slice", f"other/{CONTAINER}/x-{CONTAINER}"):
        (tmp_path / path).mkdir(parents=True)
    monkeypatch.setattr(targets, "cgroup_root", lambda: tmp_path)
    return tmp_path


def test_no_target_is_the_whole_machine() -> None:
    """An empty target has no condition."""
    assert Target().conditions() == {}


def test_conditions_are_members_of_the_filter() -> None:
    """Every condition is a member of struct scope_filter."""
    struct = probe_named("syscalls").btf.struct("scope_filter")
    assert struct is not None
    conditions = Target(comm="sh", exe=sys.executable).conditions()
    assert set(conditions) <= {member.name for member in struct.members}
    assert conditions["comm"] == b"sh"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pid": 0}, "target.pid: 0 is no process; leave it out to watch the whole machine"),
        ({"pid": -7, "comm": "sh"}, "target.pid: -7 is no process; leave it out to watch the whole machine"),
        ({"comm": ""}, "target.comm: it is empty; leave it out to watch the whole machine"),
        ({"exe": ""}, "target.exe: it is empty; leave it out to watch the whole machine"),
        ({"pid": 1, "cgroup": ""}, "target.cgroup: it is empty; leave it out to watch the whole machine"),
        ({"container": ""}, "target.container: it is empty; leave it out to watch the whole machine"),
    ],
    ids=str,
)
def test_a_field_that_names_nobody_is_not_everybody(given: dict[str, Any], said: str) -> None:
    """A field given as 0 or empty, such as from an unset variable, is refused; the message says what to do."""
    with pytest.raises(InvalidTarget) as refused:
        target_of(given)
    assert str(refused.value) == said


def test_fields_that_were_not_given_are_no_condition() -> None:
    """Only the given fields are in the target."""
    assert target_of({}) == Target()
    assert target_of({"pid": 7, "comm": "sh"}) == Target(pid=7, comm="sh")


@pytest.mark.parametrize(("comm", "fits"), [("x" * 15, True), ("x" * 16, False), ("é" * 7, True), ("é" * 8, False)])
def test_a_name_has_15_bytes_at_most(comm: str, fits: bool) -> None:
    """A name longer than 15 bytes, not characters, could never match and is refused."""
    if fits:
        assert Target(comm=comm).conditions()["comm"] == comm.encode()
    else:
        with pytest.raises(TargetNotFound, match="names have at most 15 bytes"):
            Target(comm=comm).conditions()


def test_an_executable_has_to_be_a_file(tmp_path: Path) -> None:
    """Links are followed. There is no condition yet, because only the kernel knows the inode."""
    program = tmp_path / "program"
    program.touch()
    (tmp_path / "link").symlink_to(program)
    assert Target(exe=str(tmp_path / "link")).conditions() == {}
    for name, said in (("nothing", "No such file"), (".", "it is not a file")):
        with pytest.raises(TargetNotFound, match=said):
            Target(exe=str(tmp_path / name)).conditions()


def test_a_cgroup_is_a_directory_of_the_hierarchy(cgroups: Path) -> None:
    """A cgroup is a directory below the root; leading and trailing slashes are ignored. Other paths are refused."""
    for given in ("system.slice", "/system.slice/"):
        assert Target(cgroup=given).cgroup_folder() == cgroups / "system.slice"
    (cgroups / "cgroup.procs").touch()
    for given in ("nonsense", "cgroup.procs", "../../../../../../../proc"):
        with pytest.raises(TargetNotFound, match="there is no cgroup"):
            Target(cgroup=given).conditions()


@pytest.mark.parametrize("length", [12, 20, 64])
def test_a_container_is_its_outermost_cgroup(cgroups: Path, length: int) -> None:
    """An id, or its first 12 or more digits, finds the container's outermost cgroup for each engine's naming."""
    outermost = {cgroups / f"system.slice/docker-{CONTAINER}.scope", cgroups / "other" / CONTAINER}
    assert Target(container=CONTAINER[:length]).cgroup_folder() in outermost


@pytest.mark.parametrize("container", ["0123456789a", "0123456789AB", "../../../etc", "0123456789a*", "web"])
@pytest.mark.usefixtures("cgroups")
def test_what_is_no_container_is_refused(container: str) -> None:
    """Short ids are refused because they are ambiguous, and so are unknown names."""
    with pytest.raises(TargetNotFound, match="no cgroup v2 belongs to a container"):
        Target(container=container).conditions()


def test_a_container_by_its_name(cgroups: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A container's name finds its cgroup; not that of the engine's monitor, which has the same id. A name that several
    containers have is refused; the message has their ids."""
    engine, other = tmp_path_factory.mktemp("engine"), CONTAINER[::-1]
    (cgroups / f"system.slice/libpod-conmon-{other}.scope").mkdir()
    (cgroups / f"system.slice/docker-{other}.scope").mkdir()

    def called(id_: str, name: str) -> None:
        folder = engine / "var/lib/docker/containers" / id_
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.v2.json").write_text(json.dumps({"Name": f"/{name}", "Config": {"Image": "nginx:1"}}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targets, "Containers", lambda: Containers(engine))
        called(other, "web")
        assert Target(container="web").cgroup_folder() == cgroups / f"system.slice/docker-{other}.scope"
        called(CONTAINER, "web")
        with pytest.raises(
            TargetNotFound, match=f"several containers are called 'web'; give an id: {CONTAINER}, {other}"
        ):
            Target(container="web").conditions()


def test_a_process_has_to_run() -> None:
    """The pid of an ended process is refused."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(TargetNotFound, match=f"no process has pid {ended.pid}"):
        Target(pid=ended.pid).conditions()
    assert Target(pid=os.getpid()).conditions() == {}
