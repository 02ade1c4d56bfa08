"""A link between two network namespaces that delays packets by a fixed time, reorders some of them and loses others.

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
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
_LONGEST_PACKET = 65_536
_AT_ONCE = 64  # packets taken from a device before it is looked which are due
_QUEUE = 10_000  # packets that may wait in a device until they are taken
_TOLD = 0  # standard input: a line asks for the harm, its end ends the process


@dataclass(frozen=True)
class Delays:
    """How bad a link is, in each of its two directions."""

    delay_s: float  # from end to end, at least
    reordered: float = 0.0  # the share of packets that do not wait, and so overtake others
    lost: float = 0.0  # the share of packets that never arrive


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


def ip(*words: str) -> None:
    """Runs ip(8)."""
    subprocess.run(["ip", *words], check=True)


class _Mover:
    # Moves packets between its two devices.

    def __init__(self, delays: Delays) -> None:
        (one, _), (other, _) = made = _new_device(), _new_device()
        self.names = [name for _, name in made]
        self._other = {one: other, other: one}
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
        if drawn < self._delays.lost:
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
    mover = _Mover(Delays(**json.loads(sys.argv[1])))
    print(json.dumps(mover.names), flush=True)
    mover.run()


if __name__ == "__main__":
    _main()
