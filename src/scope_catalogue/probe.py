"""A probe as data: what people choose and read of it, and its streams."""

from dataclasses import dataclass, field

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
