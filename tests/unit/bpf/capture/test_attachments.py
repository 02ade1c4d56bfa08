"""Each file is attached once, known libraries first, and again when a process maps the file again."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from scope_bpf.capture import attachments as attachments_module
from scope_bpf.capture.attachments import Attachments
from scope_bpf.capture.retries import Retries
from scope_bpf.code.effort import Effort
from scope_bpf.code.modules import Module
from scope_bpf.errors import KernelError


class Recorder:
    """Stands in for the uprobes of a file, which need a kernel: records the attached and detached files."""

    attached: list[str]
    detached: list[str]
    refused: set[str]

    def __init__(self, _places: Any) -> None:
        self.path = ""

    def attach(self, module: Module, _found: dict[str, int]) -> int:
        assert module.file
        with module.file.held.reached() as path:
            return self._attach(path)

    def _attach(self, path: str) -> int:
        if path in self.refused:
            raise KernelError("cannot attach to a function", 22)
        self.attached.append(path)
        self.path = path
        return 3

    def close(self) -> None:
        if self.path:
            time.sleep(0.1)  # detaching is slow in the kernel too
            self.detached.append(self.path)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    Recorder.attached, Recorder.detached, Recorder.refused = [], [], set()
    monkeypatch.setattr(attachments_module, "Uprobes", Recorder)
    return Recorder


@pytest.fixture
def attachments(recorder: type[Recorder]) -> Iterator[Attachments]:
    places: Any = recorder  # the stand-in does not use them
    made = Attachments(
        places, ("libcudart.",), None, Retries(lambda: None), threading.RLock(), ending=threading.Event()
    )
    yield made
    made.close()


def module(name: str, size: int = 1) -> Module:
    elf: Any = SimpleNamespace(size=size, left_out={})
    file: Any = SimpleNamespace(held=SimpleNamespace(reached=lambda: nullcontext(name)))
    return Module(f"/lib/{name}", hash(name), elf, file)


def test_known_names_come_first_and_then_the_small_ones(attachments: Attachments, recorder: type[Recorder]) -> None:
    """Libraries with known names are attached first, then other files, small ones first. Each file is attached once."""
    modules = [module("large.so", 300), module("small.so", 1), module("libcudart.so.13", 200)]
    attachments.attach_somebodys(dict.fromkeys(modules, 0))
    assert recorder.attached == ["libcudart.so.13", "small.so", "large.so"]
    attachments.attach_somebodys(dict.fromkeys(modules, 0))
    assert len(recorder.attached) == 3, "each once"
    assert all(one in attachments for one in modules)


def test_functions_count_where_somebody_uses_them(attachments: Attachments) -> None:
    """The functions of a file count once, and only if a watched process uses the file."""
    used, installed = module("used.so"), module("installed.so")
    attachments.attach_somebodys({used: 0, installed: 0})
    assert attachments.functions == 0
    attachments.use(used)
    attachments.use(used)
    assert attachments.functions == 3


def test_a_refusal_is_counted_and_holds_up_nobody(attachments: Attachments, recorder: type[Recorder]) -> None:
    """A refused file is counted; the others are attached. For a file named by the user, the error is raised."""
    recorder.refused = {"refused.so", "named.so"}
    attachments.attach_somebodys({module("refused.so"): 0, module("other.so"): 0})
    assert (recorder.attached, attachments.refused) == (["other.so"], 1)
    with pytest.raises(KernelError):
        attachments.attach(module("named.so"))


def test_who_maps_it_again_has_it_attached_to_again(attachments: Attachments, recorder: type[Recorder]) -> None:
    """A file mapped again is attached only after the kernel has detached it, so no call is recorded twice."""
    one = module("one.so")
    attachments.attach(one)
    attachments.drop(one)
    assert one not in attachments
    attachments.attach(one)
    assert recorder.detached == ["one.so"]
    assert recorder.attached == ["one.so"] * 2


def test_what_is_detached_from_waits_for_no_code_that_is_read(recorder: type[Recorder]) -> None:
    """Detaching does not wait for threads that read files: these may wait for the lock of the attaching thread."""
    read, lock = threading.Event(), threading.RLock()

    def find_functions(_: Module) -> dict[str, int]:
        assert read.wait(60)
        with lock:
            return {}

    resolver: Any = SimpleNamespace(
        add_module=lambda _: True, drop_module=lambda _: None, find_functions=find_functions
    )
    places: Any = recorder
    retries = Retries(lambda: None)
    retries.waits = False
    attachments = Attachments(places, (), resolver, retries, lock, ending=threading.Event())
    one = module("one.so")
    for each in (one, *(module(f"{number}.so") for number in range(20))):
        attachments.attach(each)
    with lock:
        attachments.drop(one)
        read.set()
        attachments.attach(one)
    attachments.close()
    assert recorder.attached.count("one.so") == 2


def test_the_end_does_not_wait_for_code_that_is_read(recorder: type[Recorder]) -> None:
    """A thread that reads a file without end is left alone no longer than until its next piece; the file is told."""
    begun, released, ending = threading.Event(), threading.Event(), threading.Event()

    def find_functions(_module: Module) -> dict[str, int]:
        for _ in Effort({}).on(itertools.count()):
            begun.set()
            if released.wait(0.01):
                break
        return {}

    resolver: Any = SimpleNamespace(add_module=lambda _: True, find_functions=find_functions)
    places: Any = recorder
    retries = Retries(lambda: None)
    retries.waits = False
    attachments = Attachments(places, (), resolver, retries, threading.RLock(), ending=ending)
    attachments.attach(module("one.so"))
    assert begun.wait(60)
    ending.set()
    attachments.attach(module("two.so"))
    closing = threading.Thread(target=attachments.close)
    closing.start()
    closing.join(60)
    has_ended = not closing.is_alive()
    released.set()
    closing.join()
    assert has_ended
    assert attachments.left_out == {"/lib/one.so": "the trace ended before they were found"}
    assert recorder.attached == ["one.so"], "nothing was attached once the trace was to end"


def test_how_late_it_was_is_kept(attachments: Attachments) -> None:
    """The delay since the mapping is kept. A file whose mapping time is unknown does not count as late."""
    now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    attachments.attach_somebodys({module("late.so"): now_ns - 10**9, module("unknown.so"): 0})
    (late,) = attachments.late
    assert (late.path, late.functions, attachments.late_count) == ("/lib/late.so", 3, 1)
    assert late.late_ns >= 10**9


def test_nothing_is_attached_after_the_end(attachments: Attachments, recorder: type[Recorder]) -> None:
    """Closing twice detaches each file once. Afterwards nothing is attached."""
    attachments.attach(module("one.so"))
    attachments.close()
    attachments.close()
    attachments.attach(module("two.so"))
    assert (recorder.attached, recorder.detached) == (["one.so"], ["one.so"])
