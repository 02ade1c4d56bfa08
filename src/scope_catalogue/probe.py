"""A probe as data: what people choose and read of it, and its streams."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scope_catalogue.guide import Guide
from scope_catalogue.options import Option
from scope_catalogue.stream import DescribedStream


@dataclass(frozen=True)
class DescribedProbe:
    """A probe. Only the agent runs an option's `check`: a program is no data."""

    name: str
    meaning: str
    options: tuple[Option, ...]
    streams: tuple[DescribedStream, ...]
    guide: Guide = field(default_factory=Guide)

    def recorded(self, options: Mapping[str, Any]) -> tuple[DescribedStream, ...]:
        """The streams that a task has with these options, which are complete: those of its mode, and states."""
        mode = options.get("mode")
        return tuple(stream for stream in self.streams if mode in (None, stream.mode) or stream.latest)
