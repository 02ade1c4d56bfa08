"""Where the wall time of one request, call or token went, as a sentence that a person would say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scope_views.printable import printable
from scope_views.quantities import duration
from scope_views.why.shares import WORTH_TELLING, shares

# What a thread does, or waits for, by the name of the part.
PARTS: Mapping[str, str] = {
    "on_cpu": "on a CPU",
    "gpu_wait": "waiting for a GPU",
    "run_queue": "waiting for a CPU",
    "blocked": "blocked",
    "stopped": "stopped by a signal",
    "unknown": "not known",
}


@dataclass(frozen=True)
class Cause:
    """Something that slowed pieces of a request, such as tokens.

    Attributes:
        ns: the time of these pieces.
    """

    text: str
    pieces: int
    ns: int


@dataclass(frozen=True)
class Request:
    """What a sentence is about.

    Attributes:
        name: what it is, such as `This request` or `read`.
        program: the name of its process; None: unknown.
        parts: in ns, by the names of `PARTS`; empty: unknown.
        causes: the one with most time first.
        not_split: why `parts` is empty.
    """

    name: str
    program: str | None
    lasted_ns: int
    parts: Mapping[str, int] = field(default_factory=dict)
    causes: Sequence[Cause] = ()
    not_split: str = ""


def sentence(request: Request) -> str:
    """How long it took, and where that time went."""
    name, lasted_ns = printable(request.name), request.lasted_ns
    whose = f"{name} of {printable(request.program)}" if request.program else name
    if not request.parts or lasted_ns <= 0:
        return f"{whose} took {duration(lasted_ns)}. {request.not_split}".rstrip()
    told = shares([(text, request.parts.get(part, 0)) for part, text in PARTS.items()], lasted_ns)
    said = f"{whose} took {duration(lasted_ns)}: {told or 'nothing known'}."
    for cause in request.causes:
        if cause.ns >= WORTH_TELLING * lasted_ns:
            pieces = "1 piece" if cause.pieces == 1 else f"{cause.pieces:,} pieces"
            said += f" {cause.ns / lasted_ns:.0%} of it was in {pieces} slowed by this: {cause.text}."
    return said
