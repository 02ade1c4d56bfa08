"""What the paths of cgroups name."""

from pathlib import Path

import pytest

from scope_bpf.containers.paths import Named, named_in, unified

CAPTURED = Path(__file__).with_name("cgroups.txt").read_text().split("\n\n")[1:]


@pytest.mark.parametrize("captured", CAPTURED, ids=lambda text: text.splitlines()[0])
def test_captured_cgroups(captured: str) -> None:
    """Each engine's cgroups name the innermost container, the pod, the systemd unit and the user, and nothing else."""
    _, *lines, told = captured.splitlines()
    expected = ["" if word == "-" else word for word in told.removeprefix("= ").split()]
    assert named_in("\n".join(lines)) == Named(*expected)


def test_the_path_in_cgroup_v2() -> None:
    """Of both hierarchies, the path in cgroup v2 is taken, which may contain colons."""
    assert unified("1:name=systemd:/a\n0::/b:c\n") == "/b:c"
    assert unified("1:name=systemd:/a\n") == ""
