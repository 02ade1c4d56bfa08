"""Annotations as a timeline has them: marks, and slices in lanes of one track, since they may overlap."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Annotation:
    """What is said.

    Attributes:
        begin_ns: since 1970, as `end_ns`.
        end_ns: None: it is about a moment.
        machine: id and hostname; None: it is about all.
    """

    text: str
    begin_ns: int
    end_ns: int | None = None
    machine: tuple[str, str] | None = None


def lanes(told: Iterable[Annotation]) -> Iterator[tuple[int, Annotation]]:
    """Each annotation with the number of its lane: slices in a lane follow each other; marks are in lane 0."""
    ends: dict[tuple[str, str] | None, list[int]] = {}
    for one in sorted(told, key=lambda each: (each.begin_ns, each.end_ns or 0, each.text)):
        if one.end_ns is None:
            yield 0, one
            continue
        of_machine = ends.setdefault(one.machine, [])
        lane = next((lane for lane, end in enumerate(of_machine) if end <= one.begin_ns), len(of_machine))
        of_machine[lane : lane + 1] = [one.end_ns]
        yield lane + 1, one
