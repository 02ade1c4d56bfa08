"""Counts what watched processes did and a probe cannot record, and says so."""

from collections.abc import Mapping

import numpy as np

from scope_bpf.binding.map import read_per_cpu
from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.part import Part
from scope_bpf.catalogue.probe import Probe
from scope_bpf.layout.records import enum_values

_COUNT = np.dtype("u8")
_PREFIX = "SCOPE_UNSEEN_"


class Unseen(Part):
    """Reads the map in which programs count it, by the kinds of `Alternative.unseen`."""

    def __init__(self, probe: Probe, unseen: Mapping[str, str]) -> None:
        self._probe, self._unseen = probe, unseen
        self._object: BpfObject | None = None
        self._ended: dict[str, int] = {}

    def start(self, object_: BpfObject) -> None:
        """From now on there is something to read."""
        self._object = object_

    def counts(self) -> dict[str, int]:
        """The numbers by kind; after `close`, the final ones."""
        if not self._object:
            return self._ended
        fd, kinds = self._object.map("scope_unseen").fd, enum_values(self._probe.btf, "scope_unseen")
        return {kind: int(read_per_cpu(fd, kinds[f"{_PREFIX}{kind.upper()}"], _COUNT).sum()) for kind in self._unseen}

    def notes(self) -> list[str]:
        """For people: what was not recorded, if there was any."""
        told = [f"{count:,} {self._unseen[kind]}" for kind, count in self.counts().items() if count]
        return [f"not recorded by {self._probe.name}: {' and '.join(told)}"] if told else []

    def close(self) -> None:
        """Keeps the final numbers."""
        self._ended, self._object = self.counts(), None
