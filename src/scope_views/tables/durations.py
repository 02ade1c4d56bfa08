"""Durations by size: counts per bucket. Buckets are an eighth of a power of two wide; of a summary, a whole one."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

_PER_OCTAVE = 8
_BUCKETS = 64 * _PER_OCTAVE


@dataclass
class Durations:
    """Durations by size.

    Attributes:
        buckets: how many are in [2^(b/8), 2^((b+1)/8)) ns, by b.
        longest: the longest, in ns; of a histogram, the end of its last bucket that is not empty.
        exact: whether `longest` is exact; otherwise it is an upper bound.
    """

    buckets: Counter[int] = field(default_factory=Counter)
    longest: int = 0
    exact: bool = True

    @classmethod
    def by_group(cls, column: pa.Array, places: Any, count: int) -> list["Durations"]:
        """The durations of each group of a batch.

        Args:
            column: durations in ns, null for none; or of a summary, histograms by powers of two.
            places: each row's group, shape (rows,).
            count: how many groups there are.
        """
        if pa.types.is_fixed_size_list(column.type):
            return cls._of_histograms(column, places, count)
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        there = column.is_valid().to_numpy(zero_copy_only=False)
        longest = np.zeros(count, np.uint64)
        np.maximum.at(longest, places, values.astype(np.uint64))
        buckets = np.minimum((np.log2(np.maximum(values, 1)) * _PER_OCTAVE).astype(np.int64), _BUCKETS - 1)
        codes = places.astype(np.int64) * _BUCKETS + buckets
        found = [cls(Counter(), ns) for ns in longest.tolist()]
        both, counts = np.unique(codes[there], return_counts=True)
        for code, number in zip(both.tolist(), counts.tolist(), strict=True):
            found[code // _BUCKETS].buckets[code % _BUCKETS] += number
        return found

    @classmethod
    def _of_histograms(cls, column: pa.Array, places: Any, count: int) -> list["Durations"]:
        size = column.type.list_size
        rows = column.flatten().to_numpy().reshape(len(column), size)
        sums = np.zeros((count, size), np.uint64)
        np.add.at(sums, places, rows)
        found = []
        for row in sums:
            octaves = np.flatnonzero(row).tolist()
            # In the middle of the octave, which is as near as the histogram tells.
            buckets = Counter({octave * _PER_OCTAVE + _PER_OCTAVE // 2: int(row[octave]) for octave in octaves})
            found.append(cls(buckets, 2 ** (octaves[-1] + 1) if octaves else 0, exact=False))
        return found

    def add(self, other: "Durations") -> None:
        """Adds others."""
        self.buckets.update(other.buckets)
        self.longest = max(self.longest, other.longest)
        self.exact = self.exact and other.exact

    def quantile(self, share: float) -> float | None:
        """The duration in ns that this share of the durations does not exceed; None without durations.

        The error is below 5 %; of histograms, a factor of 1.5.
        """
        if not self.buckets:
            return None
        wanted, seen = share * self.buckets.total(), 0
        if self.exact and wanted > self.buckets.total() - 1:
            return float(self.longest)
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return float(min(2 ** ((bucket + 0.5) / _PER_OCTAVE), self.longest or 1))
        return None
