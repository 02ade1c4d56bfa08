"""Functions in user space: found and attached by a separate thread, so that large files cause no delay."""

import logging
import math
import mmap
import os
import select
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost, program_cost
from scope_bpf.capture.account import Account, PlaceAccount
from scope_bpf.capture.attacher import Attacher
from scope_bpf.capture.missed import Late, Missed
from scope_bpf.capture.part import Part
from scope_bpf.capture.patterns import Patterns
from scope_bpf.capture.slowdown import Slowdown
from scope_bpf.capture.uprobe import Places, make_room
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.target import Target
from scope_bpf.code.effort import give_up_at
from scope_bpf.code.libraries import files_of_command, installed_libraries
from scope_bpf.code.resolver import Resolver
from scope_bpf.errors import FunctionNotFound, GivenUp

log = logging.getLogger(__name__)

SETTLE_S = 1.0  # running processes may end at any time, and what was not read by then stays unknown
_SETTLE_COMMAND_S = 10.0  # a command that is held waits, so nothing of it is missed
_GRACE_S = 20.0  # by then, an ended process's events were read and names resolved


class Functions(Part):
    """Attaches in all files that watched processes run, until `detach`.

    Args:
        options: the probe's options, from which its places are computed.
        multi: attach to all places of a file at once.
        command: path of a command that is about to run.
        target: the processes whose files are attached.
        watched: returns the processes that may belong to the target.
    """

    def __init__(
        self,
        probe: Probe,
        options: Mapping[str, Any],
        multi: bool,
        *,
        command: str,
        target: Target,
        watched: Callable[[], Collection[int]],
    ) -> None:
        self._probe, self._options, self._multi = probe, options, multi
        self._wanted = probe.places(options)
        self._grace_s = _GRACE_S + options.get("interval_ms", 0) / 1000
        self._command, self._target, self._watched = command, target, watched
        self._places: Places | None = None
        self._patterns: Patterns | None = None
        self._ended_places: list[PlaceAccount] = []
        self._attacher: Attacher | None = None
        self._follower: _Follower | None = None
        self._slowdown: Slowdown | None = None

    def programs(self) -> Collection[str]:
        """The programs of the places."""
        return {program for place in self._wanted for program in place.programs}

    def constants(self) -> Mapping[str, Any]:
        """Constants about memory mappings in the kernel."""
        return {"scope_page_shift": mmap.PAGESIZE.bit_length() - 1}

    def prepare(self, object_: BpfObject) -> None:
        """Sizes the maps for the places."""
        make_room(object_, self._wanted, self._multi)

    def attach(self, object_: BpfObject) -> None:
        """Attaches in installed libraries, in the files of the command, and in those of watched processes.

        Raises:
            FunctionNotFound: a function is wanted by its full name, and the files that should have it do not.
        """
        self._places = Places(self._probe, object_, self._wanted, self._multi)
        self._attacher = attacher = Attacher(
            self._probe, self._options, object_, self._places, target=self._target, grace_s=self._grace_s
        )
        if self._probe.libraries:
            attacher.look_at_installed(installed_libraries(self._probe.libraries))
        attacher.look_at_installed(self._places.patterns.named_files())
        if self._command:
            attacher.look_at_files(files_of_command(self._command))
            if attacher.resolver:
                attacher.resolver.settle(_SETTLE_COMMAND_S)
        attacher.look_at_processes(self._watched())
        self._patterns = self._places.patterns
        self._slowdown = Slowdown(self._wanted, self.accounts, attacher.processes)
        if missing := self._patterns.missing():
            raise FunctionNotFound("; ".join(missing))
        if attacher.resolver:
            attacher.resolver.settle(SETTLE_S)
        self._follower = _Follower(attacher, self._watched)
        self._follower.start()

    def retarget(self, target: Target) -> None:
        """Follows another target, and attaches in the files that it has mapped already."""
        self._target = target
        if self._attacher:
            self._attacher.watch(target)
            self._attacher.look_at_processes(self._watched())

    @property
    def resolver(self) -> Resolver | None:
        """The probe's resolver."""
        return self._attacher.resolver if self._attacher else None

    @property
    def attached(self) -> int:
        """Number of attached functions; the same function counts once per file."""
        return self._attacher.functions if self._attacher else 0

    @property
    def late(self) -> list[Late]:
        """The latest files that were attached after a watched process had mapped them."""
        return self._attacher.late if self._attacher else []

    @property
    def missed(self) -> Missed:
        """Counts of what could not be seen."""
        return self._attacher.missed if self._attacher else Missed()

    def accounts(self) -> list[PlaceAccount]:
        """The counts of all places, by number; after `close`, the final counts."""
        return self._places.accounts() if self._places else self._ended_places

    def notes(self) -> list[str]:
        """For people: what of the functions may be unseen."""
        places = self.accounts()
        said = self._patterns.notes() if self._patterns else []
        if self._wanted and not self.attached and not said:
            said.append(f"no watched process has run a file with functions that '{self._probe.name}' attaches to")
        elif self._wanted and self.attached and not any(place.hits for place in places):
            said.append(f"attached to {self.attached:,} functions; no watched process has called one")
        said += self._slowdown.notes() if self._slowdown else []
        said += self._attacher.left_out() if self._attacher else []
        return said + (self.resolver.notes() if self.resolver else []) + self.missed.notes(self.late)

    def poll(self) -> list[Any]:
        """No rows of its own.

        Raises:
            Exception: what its thread met.
        """
        if self._follower and self._follower.error:
            raise self._follower.error
        if self._slowdown and self._wanted and self._places:
            self._slowdown.look()
        return []

    def count(self, accounts: dict[str, Account]) -> None:
        """Files that it could not attach in are put down to the first stream: nobody knows what they would have had."""
        first, missed = next(iter(accounts)), self.missed
        accounts[first] = (
            accounts[first].and_lost("file_unopened", missed.unopened).and_lost("file_refused", missed.refused)
        )

    def cost(self) -> Cost:
        """What the functions' programs have cost."""
        fds = self._attacher.program_fds if self._attacher else []
        return sum((program_cost(fd) for fd in fds), Cost())

    def give_up(self) -> None:
        """Attaches no more, since the trace is to end. From any thread; waits for nothing."""
        if self._attacher:
            self._attacher.ending.set()

    def detach(self) -> None:
        """Detaches from all files; data about the files is kept to resolve names."""
        self.give_up()
        if self._follower:
            self._follower.stop()
        if self._attacher:
            self._attacher.detach()

    def close(self) -> None:
        """Closes all files."""
        self.detach()
        if self._attacher:
            self._attacher.close()
        if self._places:
            self._ended_places, self._places = self._places.accounts(), None


class _Follower(threading.Thread):
    """The thread that handles new mappings and planned work."""

    def __init__(self, attacher: Attacher, watched: Callable[[], Collection[int]]) -> None:
        super().__init__(name="scope-follow", daemon=True)
        self._attacher, self._watched = attacher, watched
        self._stop_reading, self._stop_writing = os.pipe2(os.O_CLOEXEC)
        self.error: Exception | None = None

    def run(self) -> None:
        give_up_at(self._attacher.ending)
        waiting = select.poll()
        waiting.register(self._stop_reading, select.POLLIN)
        for fd in self._attacher.descriptors():
            waiting.register(fd, select.POLLIN)
        while not any(fd == self._stop_reading for fd, _ in waiting.poll(self._patience_ms())):
            try:
                self._attacher.follow(self._watched)
            except GivenUp:
                return
            except Exception as error:  # `poll` raises it: nothing would be attached to any more
                self.error = error
                return

    def _patience_ms(self) -> int | None:
        due_s = self._attacher.due_s()
        return math.ceil(due_s * 1000) if due_s < math.inf else None

    def stop(self) -> None:
        """Stops the thread and waits for its end. May be called again."""
        if self._stop_writing < 0:
            return
        os.close(self._stop_writing)
        self.join()
        os.close(self._stop_reading)
        self._stop_writing = -1
