"""Labels beyond the bound are one series."""

from scope_server.exports.contract import Kind, Measurement, Point
from scope_server.exports.series import Series

OF = Measurement("open", "", Kind.MINUTE)


def _point(comm: str, count: int, minute: int = 1) -> Point:
    return Point(OF, (("comm", comm), ("path", "/x")), {"count": count, "failed": 1}, minute, 0)


def test_the_first_labels_are_kept() -> None:
    """They stay the same series for good; all others are added up, per minute."""
    series = Series(2)
    first = series.bounded([_point("a", 1), _point("b", 2), _point("c", 3), _point("d", 4), _point("d", 5, minute=2)])
    told = {(point.labels[0][1], point.time_ns): dict(point.values) for point in first}
    assert told == {
        ("a", 1): {"count": 1, "failed": 1},
        ("b", 1): {"count": 2, "failed": 1},
        ("other", 1): {"count": 7, "failed": 2},
        ("other", 2): {"count": 5, "failed": 1},
    }
    (again,) = series.bounded([_point("a", 9)])
    assert again.labels == (("comm", "a"), ("path", "/x"))
    (other,) = series.bounded([_point("e", 9)])
    assert other.labels == (("comm", "other"), ("path", "other"))
