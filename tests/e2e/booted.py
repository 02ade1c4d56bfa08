"""Boots systemd over this host's files, in namespaces of its own, and runs a Python script as one of its units.

What it writes goes to a tmpfs above the host's files and is gone afterwards. A SCOPE of the host's is hidden. Services
cannot see /tmp, /home and /root, where checkouts and Pythons often are: this checkout is at /opt/scope there, with a
virtual environment that works at that place, and its Python is at /opt/python.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scope_bpf.host import cgroup_root

CHECKOUT = Path(__file__).parents[2]
TIMEOUT_S = 500.0

# Units that a booted system has but that make no sense beside a running host, or would change it.
MASKED = (
    "systemd-udevd.service systemd-udev-trigger.service systemd-tmpfiles-setup.service systemd-sysctl.service "
    "systemd-modules-load.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount "
    "dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount"
)

# pivot_root instead of chroot: the kernel makes no user namespace (PrivateUsers=) for processes in a chroot.
BOOT = f"""\
set -eu
scratch=$1 script=$2
mount -t tmpfs tmpfs $scratch && cd $scratch && mkdir -p up/var/lib work up2 work2 root
mknod up/var/lib/scope c 0 0  # the host's is hidden, also if it is made later
mount -t overlay -o lowerdir=/,upperdir=$scratch/up,workdir=$scratch/work overlay root
cd root && mkdir -p opt/scope opt/python old test
mount -t overlay -o lowerdir={CHECKOUT},upperdir=$scratch/up2,workdir=$scratch/work2 overlay opt/scope
mount --bind {sys.base_prefix} opt/python
mount --bind $script test
mount -t proc proc proc && mount -t sysfs sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf -o mode=0700 bpf sys/fs/bpf && mount -t tracefs tracefs sys/kernel/tracing
mount -t tmpfs tmpfs run && mount --rbind /dev dev
mount -t tmpfs tmpfs dev/shm  # with RemoveIPC=, systemd deletes there what belongs to the number of a service's user
ln -sf /opt/python/bin/{Path(sys.executable).resolve().name} opt/scope/.venv/bin/python
ln -sf python opt/scope/.venv/bin/python3
sed -i 's#^home = .*#home = /opt/python/bin#' opt/scope/.venv/pyvenv.cfg
for file in opt/scope/.venv/lib/python3*/site-packages/__editable__.*.pth; do echo /opt/scope/src > $file; done
sed -i '1s#.*#\\#!/opt/scope/.venv/bin/python#' opt/scope/.venv/bin/scope
for unit in {MASKED}; do ln -sf /dev/null etc/systemd/system/$unit; done
mkdir -p etc/systemd/system.conf.d
printf '[Manager]\\nDefaultEnvironment=LD_LIBRARY_PATH=/opt/python/lib\\n' > etc/systemd/system.conf.d/python.conf
cat > etc/systemd/system/script.service <<END
[Unit]
Wants=basic.target
After=basic.target
DefaultDependencies=no
[Service]
Type=oneshot
Environment=PYTHONPATH=/opt/scope
ExecStart=/opt/scope/.venv/bin/python /test/script.py
ExecStopPost=/bin/systemctl --no-block --force exit
StandardOutput=file:/test/output
StandardError=file:/test/errors
END
pivot_root . old && umount -l /old
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test /lib/systemd/systemd --system --unit=script.service
"""


def run_booted(
    script: Path, folder: Path, *, inside: Sequence[str] = (), files: Mapping[str, str] | None = None
) -> str:
    """Runs the script; returns what it printed, which it does at its end.

    Args:
        folder: an empty directory. What is in `shared` there, is in /test for the script.
        inside: words before the command that boots, such as those of a network namespace.
        files: texts of more files in /test, by name.

    Raises:
        AssertionError: it did not end well, or systemd did not boot; the message has what is known.
    """
    unified = cgroup_root()
    assert unified, "needs a mounted cgroup v2"
    cgroup = unified / f"scope-test-{os.getpid()}"
    cgroup.mkdir()
    scratch, shared = folder / "scratch", folder / "shared"
    scratch.mkdir()
    shared.mkdir()
    for name, text in {"script.py": script.read_text(), **(files or {})}.items():
        (shared / name).write_text(text)
    boot = folder / "boot.sh"
    boot.write_text(BOOT)
    namespaces = "unshare --mount --pid --cgroup --ipc --uts --fork --kill-child"
    enter = f"echo $$ > {cgroup}/cgroup.procs; exec {namespaces} sh {boot} {scratch} {shared}"
    words = [*inside, "sh", "-c", enter]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    finally:
        for part in sorted(cgroup.rglob("*/"), reverse=True):
            part.rmdir()
        cgroup.rmdir()
    errors = (shared / "errors").read_text() if (shared / "errors").exists() else "systemd did not start the script"
    output = (shared / "output").read_text() if (shared / "output").exists() else ""
    assert output, f"{errors}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
    return output
