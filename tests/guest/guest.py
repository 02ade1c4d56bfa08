"""Runs a command as root under another kernel, with this host's own files.

Some hosts refuse an attach point of a probe: a kernel in lockdown refuses fentry, a kernel without CONFIG_KPROBES has
no kprobe. Debian's kernels allow both, so a test of such an attach point boots one in QEMU. Nothing is installed in
the guest: it sees the host's root file system read-only over 9p, and writes to a tmpfs above it.

The guest is emulated (TCG) and never uses KVM: tests mostly run in virtual machines, where KVM is missing or hangs.
A boot takes 5 s, so a test file should need few boots.
By hand: ``python3 tests/guest/guest.py [--counting] tests/.cache COMMAND ...``
"""

from __future__ import annotations

import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The static busybox is needed: the guest's first process has no C library yet.
PACKAGES = ("qemu-system-x86", "busybox-static", "kmod", "cpio")
EXIT_MARK = "\nSCOPE-GUEST-EXIT "
TIMEOUT_S = 1800.0  # for boot and command. A busy machine needs over 10 minutes for the longest

# ttyS0 is the kernel's console. The command writes to ttyS1, so that no kernel message gets between its lines.
# The second stty waits until the last byte is sent (busybox's stty uses TCSADRAIN).
INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /dev /host /rw /root
mount -t devtmpfs devtmpfs /dev
for module in {modules}; do insmod /modules/$module; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro host /host
mount -t tmpfs tmpfs /rw && mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /root
for at in proc:proc sysfs:sys tracefs:sys/kernel/tracing debugfs:sys/kernel/debug securityfs:sys/kernel/security \
    bpf:sys/fs/bpf cgroup2:sys/fs/cgroup devtmpfs:dev devpts:dev/pts tmpfs:dev/shm tmpfs:run; do
    mkdir -p /root/${{at#*:}} && mount -t ${{at%%:*}} ${{at%%:*}} /root/${{at#*:}}
done
ln -s /proc/self/fd /root/dev/fd
ip link set lo up
stty -F /dev/ttyS1 raw
(cd /root && mount --move . / && exec chroot . /bin/sh -c {command}) </dev/null >/dev/ttyS1 2>&1
printf '{mark}%d\\n' $? >/dev/ttyS1
stty -F /dev/ttyS1 raw
poweroff -f
"""


class GuestError(RuntimeError):
    """The guest could not be started, or ended before its command did. The message has the last output."""


class MissingPackageError(GuestError):
    """Debian packages that this module needs are not installed."""


class GuestTimeoutError(GuestError, TimeoutError):
    """The guest was ended because it ran longer than its timeout."""


@dataclass(frozen=True)
class GuestResult:
    """How a command in the guest ended.

    Attributes:
        returncode: as in a shell: 126 not executable, 127 not found, 128 + signal number if a signal ended the command.
        output: the command's standard output and standard error, in the order written.
    """

    returncode: int
    output: str


def fetch_kernel(cache: Path, package: str = "linux-image-amd64") -> Path:
    """Downloads and unpacks one of Debian's kernels, unless the cache has it.

    Args:
        cache: a directory with a folder for each kernel (400 MB); created if missing.
        package: a kernel or its metapackage, from the host's apt sources. `cloud` kernels do not work: they lack 9p.

    Returns:
        The kernel's image, with its modules unpacked beside it.

    Raises:
        MissingPackageError: the host lacks one of `PACKAGES`.
        GuestError: apt knows no such package or can't download it.
    """
    _require_packages()
    packages = [package]
    # The list grows: a metapackage depends on the kernel's package, which since 7.0 depends on one package per part.
    for name in packages:
        depends = _output("apt-cache", "depends", "--important", name)
        packages += re.findall(r"^ *Depends: (linux-(?:base|image|binary|modules)-\S+)$", depends, re.MULTILINE)
    unpacked = cache.resolve() / [name for name in packages if name.startswith("linux-image-")][-1]
    if not unpacked.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _output("apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", *packages, cwd=scratch)
            root = Path(scratch, "root")
            for archive in Path(scratch).glob("*.deb"):
                _output("dpkg", "-x", str(archive), str(root))
            # Modules: lib/modules up to 6.1, later usr/lib/modules. Image: boot/vmlinuz-*, since 7.0 with the modules.
            if not (root / "lib").exists():
                (root / "lib").symlink_to("usr/lib")
            modules = next((root / "lib/modules").iterdir())
            for image in root.glob("boot/vmlinuz-*"):
                image.rename(modules / "vmlinuz")
            _output("/sbin/depmod", "--basedir", str(root), modules.name)
            if not unpacked.exists():  # another process may have been first
                root.rename(unpacked)
    return next(unpacked.glob("lib/modules/*/vmlinuz"))


def run_in_guest(
    command: list[str], *, kernel: Path, counting: bool = False, timeout: float = TIMEOUT_S
) -> GuestResult:
    """Boots a kernel, runs one command in the current directory with this process's PATH, and powers off.

    The command runs as root and alone: no init system, only loopback network, empty input, empty /run and /dev/shm.

    Args:
        command: program and arguments, not a shell line.
        kernel: the image that `fetch_kernel` returned.
        counting: the guest has one CPU, whose clock is the number of its executed instructions, 1 ns each. So CPU
            times in the guest are the same however busy the host is. They ignore caches and slow instructions.
        timeout: seconds for boot and command together.

    Raises:
        MissingPackageError: the host lacks one of `PACKAGES`.
        GuestTimeoutError: boot and command took longer than `timeout`.
        GuestError: the guest ended before the command, for example after a kernel panic.
    """
    _require_packages()
    with tempfile.TemporaryDirectory() as scratch:
        console, output = Path(scratch, "console"), Path(scratch, "output")
        # One host thread for both CPUs: with one for each, QEMU 7.2 once lost a timer's interrupt and the guest hung.
        # The command keeps one CPU busy, so it takes no longer.
        qemu = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-cpu", "max", "-m", "2G"]
        qemu += ["-smp", "1", "-icount", "shift=0,sleep=off"] if counting else ["-smp", "2"]
        # no_timer_check: on a busy host, the timer's interrupt may come later than the kernel waits for it.
        arguments = "console=ttyS0 panic=-1 quiet no_timer_check"
        qemu += ["-nodefaults", "-display", "none", "-no-reboot", "-append", arguments]
        qemu += ["-kernel", str(kernel), "-initrd", str(_make_initramfs(Path(scratch), kernel, command))]
        qemu += ["-serial", f"file:{console}", "-serial", f"file:{output}"]
        # remap: the host's root may span devices, whose inode numbers would otherwise collide in the guest.
        qemu += ["-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"]
        qemu += ["-device", "virtio-9p-pci,fsdev=root,mount_tag=host"]
        try:
            _output(*qemu, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise GuestTimeoutError(f"the guest ran over {timeout} s{_last_words(console, output)}") from None
        written, mark, code = output.read_text(errors="replace").rpartition(EXIT_MARK)
        if not mark:
            raise GuestError(f"the guest ended before its command{_last_words(console, output)}")
    return GuestResult(int(code), written)


def _make_initramfs(scratch: Path, kernel: Path, command: list[str]) -> Path:
    tree = scratch / "initramfs"
    (tree / "modules").mkdir(parents=True)
    (tree / "bin").mkdir()
    shutil.copy("/bin/busybox", tree / "bin")
    # The modules and their dependencies, in load order; a built-in module has a line without a file.
    modprobe = ["/sbin/modprobe", "-C", "/dev/null", "-d", str(kernel.parents[3]), "-S", kernel.parent.name]
    modprobe += ["--show-depends", "--all", "virtio_pci", "9pnet_virtio", "9p", "overlay"]
    lines = [line.split() for line in _output(*modprobe).splitlines()]
    paths = dict.fromkeys(Path(words[1]) for words in lines if words[0] == "insmod")
    for path in paths:
        module = path.read_bytes()  # busybox's insmod cannot read compressed modules
        (tree / "modules" / path.stem).write_bytes(lzma.decompress(module) if path.suffix == ".xz" else module)
    environment = shlex.join(["export", f"PATH={os.environ['PATH']}", "HOME=/root"])
    line = shlex.quote(f"{environment}; cd {shlex.quote(str(Path.cwd()))} && exec {shlex.join(command)}")
    modules, mark = " ".join(path.stem for path in paths), EXIT_MARK.replace("\n", "\\n")
    (tree / "init").write_text(INIT.format(modules=modules, command=line, mark=mark))
    (tree / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    _output("cpio", "--create", "--format=newc", "--quiet", "-F", "../initramfs.cpio", cwd=tree, text=names)
    return scratch / "initramfs.cpio"


def _require_packages() -> None:
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *PACKAGES]
    shown = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    if missing := " ".join(package for package in PACKAGES if f"{package} installed" not in shown):
        raise MissingPackageError(f"missing packages; as root: apt-get install {missing}")


def _output(*command: str, cwd: Path | str | None = None, text: str = "", timeout: float | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise GuestError(f"{command[0]} exited {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _last_words(*logs: Path) -> str:
    return "".join(f"\n{log.name}: {log.read_text(errors='replace')[-4000:]}" for log in logs if log.exists())


if __name__ == "__main__":
    counting = sys.argv[1] == "--counting"
    cache, *command = sys.argv[1 + counting :]
    result = run_in_guest(command, kernel=fetch_kernel(Path(cache)), counting=counting)
    print(result.output, end="")
    sys.exit(result.returncode)
