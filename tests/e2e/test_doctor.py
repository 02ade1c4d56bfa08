"""`scope doctor` and `scope probes`."""

import json
import subprocess
import sys

from tests.left_behind import left_behind, unheld

from scope_bpf.host import TRACEFS
from scope_bpf.probes import probes

SCOPE = [sys.executable, "-m", "scope_cli.main"]


def test_doctor_says_of_every_probe_where_it_attaches_and_why() -> None:
    """`scope doctor` lists each probe with its attach point, or why it has no device, as JSON and as text.

    It leaves no program and no map in the kernel.
    """
    found = json.loads(subprocess.run([*SCOPE, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    assert [finding["probe"] for finding in found["probes"]] == list(probes())
    named = [feature["name"] for feature in found["host"]]
    assert named == ["capabilities", "processes", "kernel BTF", "tracefs", "cgroup v2", "pid namespace", "preemption"]
    assert all(feature["reason"] for feature in found["host"])
    before = unheld()
    text = subprocess.run([*SCOPE, "doctor"], capture_output=True, text=True, check=True).stdout
    assert not left_behind(before)
    for finding in found["probes"]:
        assert finding["reason"], finding
        if finding["no_device"]:
            assert f"– {finding['probe']}: {finding['reason']}\n" in text
        else:
            assert finding["available"] and finding["attach_point"], finding
            assert f"✓ {finding['probe']}: {finding['attach_point']}\n" in text
    assert {finding["probe"] for finding in found["probes"] if finding["no_device"]} <= {"gpu"}


def test_features_are_told_to_a_user_who_may_not_read_them() -> None:
    """A user without privileges is told to run as root, where the kernel lets only root enter tracefs."""
    script = (
        "import os; from scope_bpf.host import features\n"  # imported as root: the user may be unable to read the files
        "os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "print(*(f'{one.name}: {one.available}, {one.reason}' for one in features()), sep='\\n')"
    )
    mounted = f'mountpoint -q {TRACEFS} || mount -t tracefs tracefs {TRACEFS} && exec "$0" "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, sys.executable, "-c", script]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert f"tracefs: False, {TRACEFS} cannot be read; run as root" in told
    assert "capabilities: False, missing CAP_BPF and CAP_PERFMON; run as root" in told


def test_a_user_without_privileges_is_told_what_each_probe_lacks() -> None:
    """`scope doctor` of a user without privileges ends with status 1, and says of each probe what lacks and helps."""
    all_files = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")  # Python may be in /root
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *all_files]
    lacks = "this process lacks CAP_BPF and CAP_PERFMON; run as root, or grant these capabilities"
    loaded = [name for name, probe in probes().items() if not probe.sampler]
    told = subprocess.run([*user, *SCOPE, "doctor"], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (1, "")
    lines = told.stdout.splitlines()
    assert "✗ capabilities: missing CAP_BPF and CAP_PERFMON; run as root" in lines
    assert [line for line in lines if line.endswith(lacks)] == [f"✗ {name}: {lacks}" for name in loaded]
    found = subprocess.run([*user, *SCOPE, "doctor", "--json"], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (1, "")
    reasons = {finding["probe"]: finding["reason"] for finding in json.loads(found.stdout)["probes"]}
    assert list(reasons) == list(probes())
    assert {name for name, reason in reasons.items() if reason == lacks} == set(loaded)


def test_probes_needs_neither_privileges_nor_the_extension() -> None:
    """`scope probes` lists all probes without capabilities and without the extension module."""
    script = (
        "import sys; sys.modules['scope_bpf.binding._native'] = None\n"
        "from scope_cli.main import main; main(['probes', '--json'])"
    )
    command = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", sys.executable, "-c", script]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [probe["name"] for probe in json.loads(listed.stdout)] == list(probes())
