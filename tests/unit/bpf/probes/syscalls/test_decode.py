"""The texts of arguments, by type. strace printed the expected texts."""

import platform

import pytest

from scope_bpf.layout.records import enum_values
from scope_bpf.probes import probe_named
from scope_bpf.probes.syscalls.addresses import socket_address
from scope_bpf.probes.syscalls.decode import BY_ANOTHER, CONDITIONS, SHOWN
from scope_bpf.probes.syscalls.errors import failure
from scope_bpf.probes.syscalls.quoting import bracketed, quoted
from scope_bpf.probes.syscalls.readings import ALL, LEVELS, NOTHING, PATHS, REGISTERS, reading_table
from scope_bpf.probes.syscalls.signatures import CALLS, COMMANDS
from scope_bpf.probes.syscalls.table import ARM64, X86_64
from scope_bpf.probes.syscalls.values import TEXTS

SIGNATURES = [signature for call in CALLS.values() for signature in (call.plain, *call.by_command.values())]


def test_every_signature_is_a_calls() -> None:
    """Every syscall with a signature exists on x86-64 or arm64."""
    assert set(CALLS) - set(X86_64.values()) - set(ARM64.values()) == set()


def test_every_type_is_known() -> None:
    """Every type can be shown. A syscall with signatures by command has an argument for the command."""
    assert {type_ for signature in SIGNATURES for type_ in signature.arguments} <= {
        *SHOWN,
        *BY_ANOTHER,
        *CONDITIONS,
        "-",
    }
    assert all(len(signature.arguments) <= 6 for signature in SIGNATURES)
    for call in CALLS.values():
        if call.by_command:
            assert call.plain.arguments[call.command] in COMMANDS


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("open_flags", 0o2000000, "O_RDONLY|O_CLOEXEC"),
        ("open_flags", 0o101 | 0o4010000, "O_WRONLY|O_CREAT|O_SYNC"),
        ("access", 0, "F_OK"),
        ("access", 0xFF, "R_OK|W_OK|X_OK|0xf8"),
        ("mode", 0, "000"),
        ("mode", 0o7, "007"),
        ("mode", 0o4755, "04755"),
        ("signal", 10, "SIGUSR1"),
        ("signal", 32, "SIGRTMIN"),
        ("signal", 34, "SIGRT_2"),
        ("signal", 99, "99"),
        ("protection", 0, "PROT_NONE"),
        ("map_flags", 0x22, "MAP_PRIVATE|MAP_ANONYMOUS"),
        ("whence", 99, "0x63 /* SEEK_??? */"),
        ("family", 99, "0x63 /* AF_??? */"),
        ("statx_flags", 0x100, "AT_STATX_SYNC_AS_STAT|AT_SYMLINK_NOFOLLOW"),
        ("clone_flags", 0x1200011, "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD"),
        ("futex_command", 129, "FUTEX_WAKE_PRIVATE"),
        ("futex_command", 393, "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME"),
    ],
)
def test_numbers_have_their_names(type_: str, value: int, text: str) -> None:
    """Known values have names, others are numbers. The upper half of the register is ignored."""
    if type_ == "open_flags" and platform.machine() == "aarch64":
        pytest.skip("these flags are x86's")
    assert TEXTS[type_](value) == text
    assert TEXTS[type_](value | 0x7777 << 32) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", '""'),
        (b'a\xff\n\t"\\\x019\x7f', r'"a\377\n\t\"\\\19\177"'),
        (b"\x017", r'"\0017"'),
        (b"\a\b\v\f\r\0", r'"\7\10\v\f\r\0"'),
        ("ä".encode(), r'"\303\244"'),
    ],
)
def test_strings_are_quoted(value: bytes, text: str) -> None:
    """The quoted text of any bytes is printable ASCII."""
    assert quoted(value) == text
    assert text.isascii()


def test_brackets_in_a_path_do_not_end_it() -> None:
    """The angle brackets within a path are escaped, so the closing one is unique."""
    assert bracketed(b"/o<d>d>1") == r"</o\74d\76d\0761>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            b"\2\0\0\x50\x7f\0\0\1" + bytes(8),
            '{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}',
        ),
        (b"\1\0/run/x\0garbage", '{sa_family=AF_UNIX, sun_path="/run/x"}'),
        (b"\1\0\0abstract", '{sa_family=AF_UNIX, sun_path=@"abstract"}'),
        (b"\1\0", "{sa_family=AF_UNIX}"),
        (b"\2\0\0", r'{sa_family=AF_INET, sa_data="\0"}'),
        (b"\x63\0ab", '{sa_family=0x63 /* AF_??? */, sa_data="ab"}'),
        (b"\2", r'"\2"'),
    ],
)
def test_addresses_are_told_by_family(value: bytes, text: str) -> None:
    """An address that is too short for its family, or whose family is unknown, is shown as bytes."""
    assert socket_address(value) == text


def test_failures_are_told_as_by_strace() -> None:
    """Errors that programs see, errors internal to the kernel, and numbers without a name are shown as by strace."""
    assert failure(2) == "-1 ENOENT (No such file or directory)"
    assert failure(512) == "? ERESTARTSYS (To be restarted if SA_RESTART is set)"
    assert failure(4000) == "-1 errno 4000 (Unknown error 4000)"


def test_each_level_reads_what_the_one_before_reads() -> None:
    """`none` and `registers` read no memory. `all` reads the arguments that `paths` reads, and more."""
    kinds = enum_values(probe_named("syscalls").btf, "syscall_read")
    numbers = {name: number for number, name in X86_64.items()}
    assert LEVELS == (NOTHING, REGISTERS, PATHS, ALL)
    nothing, registers, paths, everything = (reading_table(level, kinds, numbers) for level in LEVELS)
    assert not nothing.any()
    assert not registers.any()
    assert paths.any()
    assert (everything >= paths).all()
    assert (everything > paths).any()
