"""The errors of scope_bpf. All are subclasses of `ScopeBpfError`. A message says what to do."""

import os
from errno import ENOENT


class ScopeBpfError(Exception):
    """Root of this package's errors."""


class TargetNotFound(ScopeBpfError, LookupError):
    """The target does not exist, such as a process."""


class FunctionNotFound(TargetNotFound):
    """A file has no function with a wanted name."""


class CannotRun(ScopeBpfError, OSError):
    """A command cannot be run.

    Attributes:
        errno: why, a positive error number.
    """

    def __init__(self, command: str, errno: int) -> None:
        super().__init__(errno, f"cannot run '{command}': {os.strerror(errno)}")

    def __str__(self) -> str:
        return str(self.args[1])

    @property
    def status(self) -> int:
        """The exit status that a shell gives: 127 if the command does not exist, 126 if it cannot be run."""
        return 127 if self.errno == ENOENT else 126


class LayoutMismatch(ScopeBpfError, TypeError):
    """A probe's Python module and its C structs do not match."""


class NotElf(ScopeBpfError, ValueError):
    """The file is not a valid ELF file."""


class GivenUp(ScopeBpfError):
    """A file was not read to its end, since the trace ends."""


class NotSupported(ScopeBpfError):
    """This host does not support it. The message says why; tests use it as the reason of a skip."""


class NoDevice(NotSupported):
    """The host has no device for the probe. This is no fault of the host."""


class MissingCapability(NotSupported, PermissionError):
    """The process lacks privileges that BPF needs."""


class KernelError(ScopeBpfError, OSError):
    """The kernel or libbpf refused a call.

    Attributes:
        errno: the positive error number.
        log: the full log of libbpf.
    """

    def __init__(self, action: str, errno: int, log: str = "") -> None:
        first = next((line.removeprefix("libbpf: ").strip() for line in log.splitlines() if line.strip()), "")
        said = f": {first}" if first else ""  # libbpf logs the cause first, then its consequences
        super().__init__(errno, f"{action}: {os.strerror(errno)}{said}")
        self.action = action
        self.log = log

    def __str__(self) -> str:
        return str(self.args[1])


class VerifierError(KernelError):
    """The kernel's verifier refused a program. The message has the log's last useful line; `log` has the full log."""

    def __init__(self, program: str, errno: int, log: str) -> None:
        super().__init__(f"the kernel refused the BPF program '{program}'", errno, _verifier_complaint(log))
        self.program = program
        self.log = log


def _verifier_complaint(log: str) -> str:
    _, _, verifier = log.partition("-- BEGIN PROG LOAD LOG --")
    verifier, _, _ = verifier.partition("-- END PROG LOAD LOG --")
    useful = [line for line in verifier.splitlines() if line.strip() and not line.startswith(("processed ", "libbpf"))]
    return useful[-1] if useful else log
