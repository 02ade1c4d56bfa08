"""Files are attached to once, those that are known by their names first, and anew when somebody maps them again."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from scope_bpf.capture import attachments as attachments_module
from scope_bpf.capture.attachments import Attachments
from scope_bpf.capture.retries import Retries
from scope_bpf.code.modules import Module
from scope_bpf.errors import KernelError


class Recorder:
    """Stands in for the uprobes of a file, which need a kernel: says what was attached to, and detached from."""

    attached: list[str]
    detached: list[str]
    refused: set[str]

    def __init__(self, _places: Any) -> None:
        self.path = ""

    def attach(self, path: str, _elf: Any, _found: dict[str, int]) -> int:
        if path in self.refused:
            raise KernelError("cannot attach to a function", 22)
        self.attached.append(path)
        self.path = path
        return 3

    def close(self) -> None:
        if self.path:
            time.sleep(0.1)  # as the kernel takes its time
            self.detached.append(self.path)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    Recorder.attached, Recorder.detached, Recorder.refused = [], [], set()
    monkeypatch.setattr(attachments_module, "Uprobes", Recorder)
    return Recorder


@pytest.fixture
def attachments(recorder: type[Recorder]) -> Iterator[Attachments]:
    places: Any = recorder  # which does without
    made = Attachments(places, ("libcudart.",), None, Retries(lambda: None), threading.RLock())
    yield made
    made.close()


def module(name: str, size: int = 1) -> Module:
    elf: Any = SimpleNamespace(size=size)
    file: Any = SimpleNamespace(held=SimpleNamespace(path=name))
    return Module(f"/lib/{name}", hash(name), elf, file)


def test_known_names_come_first_and_then_the_small_ones(attachments: Attachments, recorder: type[Recorder]) -> None:
    """A large file that nobody knows holds up no other."""
    modules = [module("large.so", 300), module("small.so", 1), module("libcudart.so.13", 200)]
    attachments.attach_somebodys(dict.fromkeys(modules, 0))
    assert recorder.attached == ["libcudart.so.13", "small.so", "large.so"]
    attachments.attach_somebodys(dict.fromkeys(modules, 0))
    assert len(recorder.attached) == 3, "each once"
    assert all(one in attachments for one in modules)


def test_functions_count_where_somebody_uses_them(attachments: Attachments) -> None:
    """What is only installed is nobody's."""
    used, installed = module("used.so"), module("installed.so")
    attachments.attach_somebodys({used: 0, installed: 0})
    assert attachments.functions == 0
    attachments.use(used)
    attachments.use(used)
    assert attachments.functions == 3


def test_a_refusal_is_counted_and_holds_up_nobody(attachments: Attachments, recorder: type[Recorder]) -> None:
    """Anybody may have made the file. Who names a file himself is told."""
    recorder.refused = {"refused.so", "named.so"}
    attachments.attach_somebodys({module("refused.so"): 0, module("other.so"): 0})
    assert (recorder.attached, attachments.refused) == (["other.so"], 1)
    with pytest.raises(KernelError):
        attachments.attach(module("named.so"))


def test_who_maps_it_again_has_it_attached_to_again(attachments: Attachments, recorder: type[Recorder]) -> None:
    """After it was let go, and when the kernel has let go of it: a call is never seen twice."""
    one = module("one.so")
    attachments.attach(one)
    attachments.drop(one)
    assert one not in attachments
    attachments.attach(one)
    assert recorder.detached == ["one.so"]
    assert recorder.attached == ["one.so"] * 2


def test_what_is_detached_from_waits_for_no_code_that_is_read(recorder: type[Recorder]) -> None:
    """However many files are being read: who attaches anew has the lock, which they want."""
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
    attachments = Attachments(places, (), resolver, retries, lock)
    one = module("one.so")
    for each in (one, *(module(f"{number}.so") for number in range(20))):
        attachments.attach(each)
    with lock:
        attachments.drop(one)
        read.set()
        attachments.attach(one)
    attachments.close()
    assert recorder.attached.count("one.so") == 2


def test_how_late_it_was_is_kept(attachments: Attachments) -> None:
    """From the mapping on; of what was attached to at once nothing is said."""
    now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    attachments.attach_somebodys({module("late.so"): now_ns - 10**9, module("unknown.so"): 0})
    (late,) = attachments.late
    assert (late.path, late.functions, attachments.late_count) == ("/lib/late.so", 3, 1)
    assert late.late_ns >= 10**9


def test_nothing_is_attached_after_the_end(attachments: Attachments, recorder: type[Recorder]) -> None:
    """What was, is detached from, once."""
    attachments.attach(module("one.so"))
    attachments.close()
    attachments.close()
    attachments.attach(module("two.so"))
    assert (recorder.attached, recorder.detached) == (["one.so"], ["one.so"])
