"""The load of the machine: samples, without BPF programs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import Derived, Made, Stream
from scope_catalogue.shown import Shown
from scope_catalogue.stream import Column
from scope_catalogue.tables import LatestRows


class _Sampler:
    source = "/proc/loadavg"

    def sample(self) -> Mapping[str, list[dict[str, Any]]]:
        """One row of one stream."""
        words = Path(self.source).read_text().split()
        return {"load": [{"one_minute": float(words[0]), "tasks": int(words[3].partition("/")[2])}]}

    def close(self) -> None:
        """There is nothing to close."""


PROBE = Probe(
    name="loads",
    meaning="the load of the machine",
    streams=(
        Stream(
            "load",
            "the load as it is",
            columns={},
            sampled=True,
            made=Made(
                derived={
                    "one_minute": Derived(Column("of the last minute"), pa.float64()),
                    "tasks": Derived(Column("threads there are"), pa.uint32()),
                }
            ),
            shown=Shown(tables=(LatestRows(("one_minute", "tasks")),)),
        ),
    ),
    sampler=_Sampler,
)
