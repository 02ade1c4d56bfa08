"""Makes the kernel drop packets in a way that argv names, and prints as JSON what the kernel's own counters say.

usage: drops.py HOW COUNT [ROUTER]    ROUTER: file of the network namespace of a router, at 10.8.0.1
"""

import ctypes
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOW, COUNT = sys.argv[1], int(sys.argv[2])
OWN = "/proc/self/ns/net"
ROUTER = sys.argv[3] if len(sys.argv) > 3 else OWN
BEHIND = ("10.8.1.2", 4001)  # an address that the router forwards to


def named(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def counters(namespace: str = OWN) -> dict[str, int]:
    """The kernel's counters of a network namespace, of /proc/net/snmp, snmp6 and netstat: `Udp.NoPorts`."""
    with Path(OWN).open() as before, Path(namespace).open() as other:
        ctypes.CDLL(None).setns(other.fileno(), 0)
        lines = [line for name in ("snmp", "netstat") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
        sixes = [line.split() for line in Path("/proc/net/snmp6").read_text().splitlines()]
        ctypes.CDLL(None).setns(before.fileno(), 0)
    found = {name: int(value) for name, value in sixes}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        kind = names.partition(":")[0]
        found |= {
            f"{kind}.{name}": int(value) for name, value in zip(names.split()[1:], values.split()[1:], strict=True)
        }
    return found


def more(before: dict[str, int], namespace: str = OWN) -> dict[str, int]:
    """What the counters have more than before."""
    return {name: value - before.get(name, 0) for name, value in counters(namespace).items()}


def forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    work()
    os._exit(0)


def unheard() -> dict[str, Any]:
    """Datagrams to ports without a listener."""
    ports = {}
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        with socket.socket(family, socket.SOCK_DGRAM) as bound, socket.socket(family, socket.SOCK_DGRAM) as sender:
            bound.bind((host, 0))
            port = ports[host] = bound.getsockname()[1]
            bound.close()
            for n in range(COUNT):
                sender.sendto(bytes(n), (host, port))
    return {"ports": ports}


def unread() -> dict[str, Any]:
    """Datagrams to a process that does not read, and so has no room for all of them."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    told, tell = os.pipe()

    def send() -> None:
        named("drops-sender")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(COUNT):
                sender.sendto(bytes(1009), receiver.getsockname())
        os.write(tell, b"x")

    def receive() -> None:
        named("drops-receiver")
        receiver.setblocking(False)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        receiver.sendto(b"", receiver.getsockname())  # this process uses the socket, not the one that made it
        receiver.recv(1)
        sending = forked(send)
        os.read(told, 1)
        got = 0
        while select.select([receiver], [], [], 0)[0]:
            got += len(receiver.recv(2048)) == 1009
        os.waitpid(sending, 0)
        os.write(tell, struct.pack("i", got))

    child = forked(receive)
    os.waitpid(child, 0)
    (got,) = struct.unpack("i", os.read(told, 4))
    return {"receiver": child, "got": got, "port": receiver.getsockname()[1]}


def expired() -> dict[str, Any]:
    """Datagrams whose time to live ends at the router."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        for _ in range(COUNT):
            sender.sendto(b"", BEHIND)
    return {}


def spoofed() -> dict[str, Any]:
    """Datagrams with a source to which the router has no route."""
    source, destination = socket.inet_aton("203.0.113.9"), socket.inet_aton("10.8.0.1")
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, socket.IPPROTO_UDP, 0, source, destination)
    datagram = struct.pack("!HHHH", 4003, 4007, 8, 0)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sender:
        for _ in range(COUNT):
            sender.sendto(header + datagram, ("10.8.0.1", 0))
    return {}


def crowded() -> dict[str, Any]:
    """Datagrams for which a slow device has no room."""
    subprocess.run(["sh", "-c", "tc qdisc add dev c0 root tbf rate 8kbit burst 1600 limit 3000"], check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(COUNT):
            sender.sendto(bytes(1009), BEHIND)
    said = subprocess.run(["tc", "-s", "qdisc", "show", "dev", "c0"], check=True, capture_output=True, text=True).stdout
    return {"dropped": int(re.findall(r"dropped (\d+)", said)[0])}


if __name__ == "__main__":
    before = counters(ROUTER)
    told = globals()[HOW]()
    netns = Path(ROUTER if HOW != "crowded" else OWN).stat().st_ino
    print(json.dumps({"pid": os.getpid(), "netns": netns, "more": more(before, ROUTER), **told}))
