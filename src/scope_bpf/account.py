"""The books of a stream as the kernel keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Account:
    """Counts since the start: `emitted` events passed the filter, lost ones included; `lost` is by reason."""

    emitted: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
