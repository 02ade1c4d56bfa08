"""Everything that scope_bpf raises descends from `ScopeBpfError`. A message says what to do."""

import os
from errno import ENOENT


class ScopeBpfError(Exception):
    """Root of this package's errors."""


class UnknownProbe(ScopeBpfError, LookupError):
    """No probe in the catalogue has this name."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


class InvalidOption(ScopeBpfError, ValueError):
    """An option a probe does not have, or a value that the option does not take."""


class InvalidFilter(ScopeBpfError, ValueError):
    """A filter that cannot be read, or does not suit the columns it is for; the message says where and why."""


class InvalidTarget(ScopeBpfError, ValueError):
    """A part of a target that names nobody, such as the pid 0."""


class TargetNotFound(ScopeBpfError, LookupError):
    """What was to be watched does not exist."""


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
        """How a shell ends for this reason: 127 for a command that is not there, 126 for one that cannot be run."""
        return 127 if self.errno == ENOENT else 126


class LayoutMismatch(ScopeBpfError, TypeError):
    """A probe's Python and its C structs do not name the same fields."""


class NotElf(ScopeBpfError, ValueError):
    """A file is no ELF file that functions could be found in."""


class NotSupported(ScopeBpfError):
    """This host cannot do it; the reason is for people, and is what a test is skipped with."""


class NoDevice(NotSupported):
    """The host has no device of the kind that a probe is about: nothing is wrong with it."""


class MissingCapability(NotSupported, PermissionError):
    """The process lacks privileges that BPF needs."""


class KernelError(ScopeBpfError, OSError):
    """The kernel or libbpf refused a call.

    Attributes:
        errno: the positive error number.
        log: what libbpf said, whole.
    """

    def __init__(self, action: str, errno: int, log: str = "") -> None:
        first = next((line.removeprefix("libbpf: ").strip() for line in log.splitlines() if line.strip()), "")
        said = f": {first}" if first else ""  # libbpf says the cause first, then what fails for it
        super().__init__(errno, f"{action}: {os.strerror(errno)}{said}")
        self.action = action
        self.log = log

    def __str__(self) -> str:
        return str(self.args[1])


class VerifierError(KernelError):
    """The kernel's verifier refused a program; the message has its last useful line, `log` has all."""

    def __init__(self, program: str, errno: int, log: str) -> None:
        super().__init__(f"the kernel refused the BPF program '{program}'", errno, _verifier_complaint(log))
        self.program = program
        self.log = log


def _verifier_complaint(log: str) -> str:
    _, _, verifier = log.partition("-- BEGIN PROG LOAD LOG --")
    verifier, _, _ = verifier.partition("-- END PROG LOAD LOG --")
    useful = [line for line in verifier.splitlines() if line.strip() and not line.startswith(("processed ", "libbpf"))]
    return useful[-1] if useful else log
