"""A link between two network namespaces that delays packets by a fixed time, reorders some of them and loses others.

It loses packets by chance, or those of TCP that a test chooses, by the byte of the stream that they carry.

Not every kernel has netem, nor a queue that sends packets at a given time. So each namespace gets a TUN device, and a
process of its own, which runs this file, moves packets from one device to the other when they are due.
"""

import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
_LONGEST_PACKET = 65_536
_AT_ONCE = 64  # packets taken from a device before it is looked which are due
_QUEUE = 10_000  # packets that may wait in a device until they are taken
_TOLD = 0  # standard input: a line asks for the harm, its end ends the process


@dataclass(frozen=True)
class Loss:
    """Segments of TCP that a link loses: those that carry a certain byte, in every connection."""

    end: int  # 0 or 1: at which end of the link they are sent
    byte: int  # of this end's stream: 0 is the SYN or SYN-ACK, 1 the first one of data; after the last one comes FIN
    first: int = 1  # the first one of them that is lost
    last: int = 1  # the last one of them: they are sent again


@dataclass(frozen=True)
class Delays:
    """How bad a link is, in each of its two directions."""

    delay_s: float  # from end to end, at least
    reordered: float = 0.0  # the share of packets that do not wait, and so overtake others
    lost: float = 0.0  # the share of packets that never arrive
    losses: Sequence[Loss] = ()
    fins_cross: bool = False  # the first FIN of a connection waits until the other end has sent its own, too


@dataclass
class Harm:
    """What a link has done to packets so far, in both directions: how many it delayed, let overtake others, lost."""

    delayed: int = 0
    overtook: int = 0
    lost: int = 0


class DelayedLink:
    """A link whose packets a process moves."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def harm(self) -> Harm:
        """What it has done so far."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Harm(**self.answer())

    def answer(self) -> dict[str, int]:
        """The next line that the process prints."""
        assert self._process.stdout
        answer: dict[str, int] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def delayed_link(ends: tuple[str, str], delays: Delays, device: str = "wire") -> Iterator[DelayedLink]:
    """While inside, a link is between two network namespaces, given by name.

    Its ends are devices of this name. They are down and have no address. They know no Ethernet, only IP.
    """
    command = [sys.executable, "-S", "-E", str(Path(__file__).resolve()), json.dumps(asdict(delays))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        link = DelayedLink(process)
        for end, name in zip(ends, link.answer(), strict=True):
            ip("link", "set", name, "netns", end, "name", device)
            ip("-n", end, "link", "set", device, "txqueuelen", str(_QUEUE))
        yield link


@contextmanager
def linked_namespaces(addresses: tuple[str, str], delays: Delays) -> Iterator[tuple[str, str, DelayedLink]]:
    """While inside, two network namespaces exist, with a link between them: their names, and the link."""
    ends = one, other = f"scope{os.getpid()}a", f"scope{os.getpid()}b"
    with ExitStack() as cleanup:
        for name in ends:
            ip("netns", "add", name)
            cleanup.callback(ip, "netns", "del", name)
        link = cleanup.enter_context(delayed_link(ends, delays))
        for name, address in zip(ends, addresses, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "wire")
            ip("-n", name, "link", "set", "wire", "up")
        yield one, other, link


def ip(*words: str) -> None:
    """Runs ip(8)."""
    subprocess.run(["ip", *words], check=True)


class _Chosen:
    # Follows the connections of TCP over IPv4, to tell which segments are to be lost, and which FINs have to wait.

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        self._begins: dict[bytes, int] = {}  # by a segment's addresses and ports: number of the stream's first byte
        self._sent: Counter[tuple[Loss, bytes]] = Counter()
        self._fins: dict[bytes, bytes | None] = {}  # the FIN that waits; None: it has gone

    def loses(self, end: int, packet: bytes) -> bool:
        if not (segment := _Segment.of(packet)):
            return False
        if segment.flags & _SYN:
            self._begins[segment.way] = segment.number
        begin = (segment.number - self._begins.get(segment.way, segment.number)) % (1 << 32)
        lost = False
        for loss in self._delays.losses:
            if loss.end == end and begin <= loss.byte < begin + segment.length:
                self._sent[loss, segment.way] += 1
                lost |= loss.first <= self._sent[loss, segment.way] <= loss.last
        return lost

    def crossing(self, packet: bytes) -> tuple[bool, bytes | None]:
        """Whether a packet has to wait for the FIN of its other end, and the one that has waited for this packet."""
        segment = _Segment.of(packet) if self._delays.fins_cross else None
        if not segment or not segment.flags & _FIN or self._fins.get(segment.way, b"") is None:
            return False, None
        if segment.back not in self._fins:
            self._fins[segment.way] = packet
            return True, None
        waited, self._fins[segment.way], self._fins[segment.back] = self._fins[segment.back], None, None
        return False, waited


_FIN, _SYN, _TCP = 1, 2, 6


@dataclass(frozen=True)
class _Segment:
    way: bytes  # addresses and ports of sender and receiver
    back: bytes
    number: int
    flags: int
    length: int  # in numbers: SYN and FIN have one, too

    @classmethod
    def of(cls, packet: bytes) -> "_Segment | None":
        if packet[0] >> 4 != 4 or packet[9] != _TCP:
            return None
        at = (packet[0] & 15) * 4
        source, to, from_port, to_port = packet[12:16], packet[16:20], packet[at : at + 2], packet[at + 2 : at + 4]
        (number,) = struct.unpack("!I", packet[at + 4 : at + 8])
        flags = packet[at + 13]
        length = len(packet) - at - (packet[at + 12] >> 4) * 4 + bool(flags & _SYN) + bool(flags & _FIN)
        return cls(source + to + from_port + to_port, to + source + to_port + from_port, number, flags, length)


class _Mover:
    # Moves packets between its two devices.

    def __init__(self, delays: Delays) -> None:
        (one, _), (other, _) = made = _new_device(), _new_device()
        self.names = [name for _, name in made]
        self._other = {one: other, other: one}
        self._end = {other: 0, one: 1}  # by the device that a packet is sent to
        self._chosen = _Chosen(delays)
        self._delays = delays
        self._harm = Harm()
        self._waiting: deque[tuple[float, int, bytes]] = deque()  # when it is due, where to, the packet
        self._random = random.Random(7)

    def run(self) -> None:
        # Until standard input ends.
        poller = select.epoll()
        for descriptor in (_TOLD, *self._other):
            poller.register(descriptor, select.EPOLLIN)
        while True:
            wait_s = max(self._waiting[0][0] - time.monotonic(), 0) if self._waiting else None
            for descriptor, _ in poller.poll(wait_s):
                if descriptor != _TOLD:
                    self._take(descriptor)
                elif os.read(_TOLD, 1):
                    print(json.dumps(asdict(self._harm)), flush=True)
                else:
                    return
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, device, packet = self._waiting.popleft()
                _send(device, packet)

    def _take(self, device: int) -> None:
        with suppress(OSError):  # nothing is left to read, or the device is down
            for _ in range(_AT_ONCE):
                self._judge(os.read(device, _LONGEST_PACKET), self._other[device])

    def _judge(self, packet: bytes, device: int) -> None:
        drawn = self._random.random()
        waits, waited = self._chosen.crossing(packet)
        if waits:
            return
        if waited:
            self._waiting.append((time.monotonic() + self._delays.delay_s, self._other[device], waited))
        if drawn < self._delays.lost or self._chosen.loses(self._end[device], packet):
            self._harm.lost += 1
        elif drawn < self._delays.lost + self._delays.reordered:
            self._harm.overtook += 1
            _send(device, packet)
        else:
            self._harm.delayed += 1
            self._waiting.append((time.monotonic() + self._delays.delay_s, device, packet))


def _send(device: int, packet: bytes) -> None:
    with suppress(OSError):  # the device is down
        os.write(device, packet)


def _new_device() -> tuple[int, str]:
    # Its descriptor, and the name that the kernel gave it.
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    answer = fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"", IFF_TUN | IFF_NO_PI))
    return device, answer[:16].rstrip(b"\0").decode()


def _main() -> None:
    told = json.loads(sys.argv[1])
    mover = _Mover(Delays(**told | {"losses": [Loss(**loss) for loss in told["losses"]]}))
    print(json.dumps(mover.names), flush=True)
    mover.run()


if __name__ == "__main__":
    _main()
