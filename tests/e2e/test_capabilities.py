"""The agent's unit lists the capabilities that recording needs: with all of them it works, without one it does not."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SCOPE = [sys.executable, "-m", "scope_cli.main"]
UNIT = Path(__file__).parents[2] / "deploy/systemd/scope-agentd.service"
SOMEBODY = 12345
SET_ASIDE = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from scope_bpf.binding.capability import SET_ASIDE, raised, set_aside
from scope_bpf.binding.held_file import HeldFile
from scope_bpf.code.kernel_symbols import KernelSymbols
from scope_bpf.code.mappings import executable_mappings, open_mapped
from scope_bpf.host import CAP_CHECKPOINT_RESTORE, unreadable

def opens(path):
    try:
        os.close(os.open(path, os.O_RDONLY))
    except PermissionError:
        return False
    return True

set_aside()
pid = int(sys.argv[1])
mapping = next(one for one in executable_mappings(pid) if one.path.endswith("/bash"))
fd = open_mapped(pid, mapping)
others = ThreadPoolExecutor(1)
others.submit(int).result()  # the thread begins before
with HeldFile(fd).reached() as path:
    reached, elsewhere = opens(path), others.submit(opens, path).result()
print(reached, elsewhere, opens(path), os.pread(fd, 4, 0), unreadable())
print(KernelSymbols().names([1 << 63])[0])  # below all functions, unless all addresses are hidden
"""


def effective() -> list[str]:
    """The unit's capabilities, as setpriv names them, without CAP_SYS_ADMIN, which would include others."""
    listed = re.search(r"(?m)^AmbientCapabilities=(.*)$", UNIT.read_text())
    assert listed
    return [name.removeprefix("CAP_").lower() for name in listed[1].split() if name != "CAP_SYS_ADMIN"]


def command(without: str, *words: str, beside: tuple[str, ...] = (), program: Sequence[str] = SCOPE) -> list[str]:
    """A command that has these capabilities but one, and some beside."""
    kept = ",".join(f"+{name}" for name in (*effective(), *beside) if name != without)
    return ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all", "--no-new-privs", *program, *words]


def scope(without: str, *words: str) -> str:
    """What such a command prints."""
    ran = subprocess.run(command(without, *words), capture_output=True, text=True)
    return ran.stdout + ran.stderr


def of_processes(without: str) -> str:
    """What `scope doctor` says first: of the host's processes. It is not waited for what it says of the probes."""
    with subprocess.Popen(command(without, "doctor"), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        told = next(line for line in running.stdout if " processes: " in line)
        running.kill()
    return told


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of another user that calls functions; only its user may read its file."""
    shell = tmp_path / "private" / "bash"
    shell.parent.mkdir()
    shutil.copy("/bin/bash", shell)
    for path in (shell.parent, shell):
        path.chmod(0o700)
        os.chown(path, SOMEBODY, SOMEBODY)
    # Its user may not enter pytest's folders, so it opens the file before it becomes that user.
    loop = "while :; do read -rt 0.05 < /dev/zero; done"
    open_first = f'exec 9< {shell}; exec setpriv --reuid={SOMEBODY} --clear-groups /proc/self/fd/9 -c "{loop}"'
    with subprocess.Popen(["bash", "-c", open_first]) as running:
        yield running
        running.kill()


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("", r"\n[1-9][\d,]* rows? in [\d.]+ s, none lost"),
        ("bpf", "scope: this process lacks CAP_BPF; run as root, or grant these capabilities"),
        ("perfmon", "scope: this process lacks CAP_PERFMON; run as root, or grant these capabilities"),
        ("sys_ptrace", r"\n0 rows in "),
        ("checkpoint_restore", r"\n0 rows in "),
        ("dac_read_search", r"\n0 rows in "),
    ],
)
def test_functions_of_another_users_program(without: str, said: str, program: subprocess.Popen[bytes]) -> None:
    """They are recorded with all capabilities, and not without one of them."""
    words = ("span", "bash:execute_command_internal", "--pid", str(program.pid), "--duration", "1")
    assert re.search(said, scope(without, "trace", *words))


def test_what_is_set_aside_is_effective_for_calls_only(program: subprocess.Popen[bytes]) -> None:
    """Mapped files and the kernel's functions are reached without lasting rights, and by the calling thread only."""
    script = [sys.executable, "-c", SET_ASIDE]
    ran = subprocess.run(command("", str(program.pid), program=script), capture_output=True, text=True)
    assert ran.stdout.splitlines() == [r"True False False b'\x7fELF' []", "0x7fffffffffffffff_[k]"], ran.stderr


@pytest.mark.parametrize("without", ["", "syslog"])
def test_names_of_the_kernels_functions(without: str, tmp_path: Path) -> None:
    """Frames of the kernel have names only with CAP_SYSLOG, unless this kernel shows its addresses to everyone."""
    folded = tmp_path / "folded"
    shell = "for i in 1 2 3; do head -c 200M /dev/zero > /dev/null; done"
    scope(without, "trace", "profile", "--folded", str(folded), "--", "sh", "-c", shell)
    hidden = [int(Path("/proc/sys/kernel", name).read_text()) for name in ("kptr_restrict", "perf_event_paranoid")]
    named = re.search(r";(?!0x)[^;]+_\[k\]", folded.read_text())
    assert bool(named) == (not without or (hidden[0] == 0 and hidden[1] <= 1))


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        (("net_admin",), "in 0.5 s, none lost"),
        ((), "programs for packets take CAP_NET_ADMIN; run as root, or grant it"),
    ],
)
def test_packets_take_one_more(beside: tuple[str, ...], said: str) -> None:
    """The probe `dns` runs with CAP_NET_ADMIN beside those of the unit, as docs/services.md says, and not without."""
    words = ("trace", "dns", "--duration", "0.5")
    ran = subprocess.run(command("", *words, beside=beside), capture_output=True, text=True)
    assert said in ran.stdout + ran.stderr


@pytest.mark.parametrize("without", [name for name in effective() if name not in ("bpf", "perfmon")])
def test_what_is_missing_is_told(without: str) -> None:
    """`scope doctor` names each missing capability, and what is not known without it."""
    assert f"✗ processes: missing CAP_{without.upper()}: " in of_processes(without)


def test_nothing_is_missing_with_all() -> None:
    """With all of them, `scope doctor` says that processes can be looked at."""
    assert "✓ processes: " in of_processes("")
