"""Puts Python frames into the native stack of their thread, in place of the interpreter's functions that run them."""

from collections.abc import Sequence
from dataclasses import dataclass

_RUNS_PYTHON = "_PyEval_EvalFrameDefault"


@dataclass(frozen=True)
class Native:
    """A native frame.

    Attributes:
        in_interpreter: the function belongs to the interpreter.
        is_known: the process had mapped code there.
        is_named: no better text can come.
    """

    text: str
    in_interpreter: bool = False
    is_known: bool = True
    is_named: bool = True


@dataclass(frozen=True)
class Group:
    """Python frames that one function of the interpreter runs.

    Attributes:
        texts: innermost first.
        place: index of the function's frame in the native stack; None: unknown.
    """

    texts: tuple[str, ...]
    place: int | None = None


def merged(native: Sequence[Native], groups: Sequence[Group]) -> list[str]:
    """One stack, outermost first, of native and Python frames, both innermost first.

    Where a version of the interpreter does not tell which of its functions runs a group, they are known by name, from
    the innermost on. Native frames of which this leaves unclear where they belong are left out.
    """
    if not groups:
        return [frame.text for frame in reversed(native)]
    places = _places(native, groups)
    clear = len(native) if len(places) == len(groups) else max(places) + 1 if places else _inside(native)
    frames: list[str] = []
    for index, frame in enumerate(native[:clear]):
        frames += places[index].texts if index in places else [frame.text]
    for group in groups[len(places) :]:
        frames += group.texts
    return frames[::-1]


def _inside(native: Sequence[Native]) -> int:
    """How many native frames are surely inside the innermost Python frame: up to the first one of the interpreter,
    which may run it."""
    outside = (index for index, frame in enumerate(native) if frame.in_interpreter)
    return max(1, next(outside, len(native)))


def _places(native: Sequence[Native], groups: Sequence[Group]) -> dict[int, Group]:
    """The groups by the index of the native frame that runs them; the outer ones may be missing."""
    named = [index for index, frame in enumerate(native) if frame.text.startswith(_RUNS_PYTHON)]
    places: dict[int, Group] = {}
    for group in groups:
        after = max(places, default=-1)
        place = group.place if group.place is not None else next((one for one in named if one > after), None)
        if place is None or place <= after or place >= len(native):
            break
        places[place] = group
    return places
