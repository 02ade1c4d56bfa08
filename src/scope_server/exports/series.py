"""How many different labels are sent: other programs keep a series for each, for as long as they keep anything."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from scope_server.exports.contract import Labels, Point

OTHER = "other"


class Series:
    """Takes the first labels of each measurement, and adds the points of all others up as `other`.

    Args:
        most: different labels of a measurement, while this object lives.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: defaultdict[str, set[Labels]] = defaultdict(set)

    def bounded(self, points: Iterable[Point]) -> Sequence[Point]:
        """The points, at most one with the same measurement, labels and time."""
        found: dict[tuple[str, Labels, int], Point] = {}
        for point in points:
            labels = self._labels(point)
            key = (point.of.name, labels, point.time_ns)
            known = found.get(key)
            values = {name: value + (known.values[name] if known else 0) for name, value in point.values.items()}
            found[key] = Point(point.of, labels, values, point.time_ns, point.since_ns)
        return list(found.values())

    def _labels(self, point: Point) -> Labels:
        taken = self._taken[point.of.name]
        if point.labels not in taken:
            if len(taken) >= self._most:
                return tuple((name, OTHER) for name, _ in point.labels)
            taken.add(point.labels)
        return point.labels
