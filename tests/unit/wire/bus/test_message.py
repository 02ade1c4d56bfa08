"""Messages of the local bus, and where it is."""

from pathlib import Path

import msgpack
import pytest

from scope_wire.bus.message import Message, packed_schema, topic_of, unpacked_schema
from scope_wire.bus.place import socket_path
from scope_wire.errors import DamagedMessage, InvalidAddress

MESSAGE = Message(
    stream="exec",
    task="6f1c0d7e",
    run="01a2",
    began_ns=5,
    sequence=3,
    events_before=7,
    emitted=12,
    lost={"ring/ring_full": 5},
    boot_to_utc_ns=-1,
)


def test_a_message_comes_back() -> None:
    """Its last frame has all that a reader needs; the first is for subscriptions."""
    assert Message.of(MESSAGE.frame()) == MESSAGE
    assert MESSAGE.topic == b"exec/6f1c0d7e" == topic_of("exec", "6f1c0d7e")
    assert unpacked_schema(packed_schema([("pid", "int32", "")])) == [("pid", "int32", "")]


@pytest.mark.parametrize("frame", [b"", b"\xc1", msgpack.packb([1]), msgpack.packb({"version": 1})], ids=repr)
def test_other_bytes_are_an_error(frame: bytes) -> None:
    """Bytes that are no message are told as such."""
    with pytest.raises(DamagedMessage, match="cannot be read"):
        Message.of(frame)


def test_another_version_is_an_error() -> None:
    """A message of another version names both."""
    with pytest.raises(DamagedMessage, match="version 2, not 1"):
        Message.of(msgpack.packb({**vars(MESSAGE), "version": 2}))


def test_the_path_of_a_socket_is_short() -> None:
    """The kernel takes 107 bytes; a longer path is an error that names it and the remedy."""
    most = Path("/" + "s" * (107 - len("//bus/socket")))
    assert len(bytes(socket_path(most))) == 107
    with pytest.raises(InvalidAddress, match="108 bytes; a socket's path has at most 107; choose a shorter directory"):
        socket_path(Path(f"{most}s"))
