"""Annotations as a timeline has them: marks, and slices in lanes of one track, since they may overlap."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from scope_views.lanes import Lanes


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
    ordered = sorted(told, key=lambda each: (each.begin_ns, each.end_ns or 0, each.text))
    yield from ((0, one) for one in ordered if one.end_ns is None)
    lasting = [one for one in ordered if one.end_ns is not None]
    machines = {machine: number for number, machine in enumerate({one.machine for one in lasting})}
    of_machines, begin_ns, end_ns = (
        np.array(numbers, np.int64)
        for numbers in (
            [machines[one.machine] for one in lasting],
            [one.begin_ns for one in lasting],
            [one.end_ns for one in lasting],
        )
    )
    yield from zip((Lanes().of(of_machines, begin_ns, end_ns) + 1).tolist(), lasting, strict=True)
