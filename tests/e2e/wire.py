"""A long link between two network namespaces that `tc` makes bad: packets are lost and wait in a queue, and it is cut.

Not every kernel has netem. So a BPF program at the ingress of both ends loses packets at random, and a token bucket
at their egress lets the rest wait. How long a packet is under way is `delayed_link`'s part.
"""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.delayed_link import Delays, delayed_link, ip

LOST_PERCENT = 5
RATE = "512kbit"  # a packet of 1,500 bytes takes 23 ms
QUEUE = "600ms"  # how long packets wait at most; those that would wait longer are lost, too
DOWN_S, UP_S = 0.4, 1.2

PROGRAM = """\
static unsigned int (*draw)(void) = (void *)7; /* bpf_get_prandom_u32 */
__attribute__((section("classifier"), used)) int lose(void *packet)
{
	return draw() % 100 < PERCENT ? 2 : 0; /* TC_ACT_SHOT, TC_ACT_OK */
}
"""


@dataclass(frozen=True)
class Wire:
    """The device `wire` in each of two network namespaces."""

    ends: tuple[str, str]

    @classmethod
    @contextmanager
    def between(cls, one: tuple[str, str], other: tuple[str, str], delay_s: float) -> Iterator["Wire"]:
        """A link, which is up; each end is the name of a namespace and its address there."""
        names = one[0], other[0]
        with delayed_link(names, Delays(delay_s)):
            for name, address in (one, other):
                ip("-n", name, "address", "add", f"{address}/24", "dev", "wire")
                for device in ("lo", "wire"):
                    ip("-n", name, "link", "set", device, "up")
            yield cls(names)

    def worsen(self, folder: Path) -> None:
        """Loses and delays packets in both directions from now on; the folder is for the program."""
        source, program = folder / "lose.c", folder / "lose.o"
        source.write_text(PROGRAM)
        flags = ("-O2", "-target", "bpf", f"-DPERCENT={LOST_PERCENT}")
        subprocess.run(["clang", *flags, "-c", source, "-o", program], check=True)
        for end in self.ends:
            self._tc(end, "qdisc", "add", "dev", "wire", "root", "tbf", "rate", RATE, "burst", "2k", "latency", QUEUE)
            self._tc(end, "qdisc", "add", "dev", "wire", "clsact")
            words = ("bpf", "direct-action", "object-file", str(program), "section", "classifier")
            self._tc(end, "filter", "add", "dev", "wire", "ingress", *words)

    def harm(self) -> dict[str, int]:
        """How many packets were lost at random, and how many had to wait, in both directions."""
        lost = waited = 0
        for end in self.ends:
            for one in json.loads(self._tc(end, "-s", "-j", "qdisc", "show", "dev", "wire")):
                lost += one["drops"] if one["kind"] == "clsact" else 0
                waited += one["overlimits"] if one["kind"] == "tbf" else 0
        return {"lost": lost, "waited": waited}

    def cut(self) -> None:
        """Cuts the link, on the side of the first end: the other one sends into nothing."""
        ip("-n", self.ends[0], "link", "set", "wire", "down")

    def heal(self) -> None:
        """The link works again."""
        ip("-n", self.ends[0], "link", "set", "wire", "up")

    @contextmanager
    def cut_again_and_again(self) -> Iterator[None]:
        """Cuts the link for a short time, again and again, while inside."""
        over = threading.Event()

        def flap() -> None:
            while not over.wait(UP_S):
                self.cut()
                over.wait(DOWN_S)
                self.heal()

        thread = threading.Thread(target=flap)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @staticmethod
    def _tc(end: str, *words: str) -> Any:
        ran = subprocess.run(["nsenter", f"--net=/run/netns/{end}", "tc", *words], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout
