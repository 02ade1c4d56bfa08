"""A flame graph as a profile for pprof, gzipped as its files are. Two sides are two types of values."""

import gzip

from scope_proto.scope.v1.pprof_pb2 import Function, Line, Location, Profile, Sample, ValueType
from scope_views.flames.speedscope import SIDES
from scope_views.flames.tree import Tree

_UNITS = {"ns": "nanoseconds", "": "count"}


def pprof(tree: Tree, begin_ns: int = 0, duration_ns: int = 0) -> bytes:
    """The file.

    Args:
        begin_ns: of the recorded time, since 1970.
        duration_ns: how long it is.
    """
    texts = _Texts()
    kind, unit = {"ns": "time", "bytes": "space"}.get(tree.unit, "samples"), _UNITS.get(tree.unit, tree.unit)
    kinds = [f"{kind}_{side}" for side in SIDES] if tree.sides > 1 else [kind]
    numbers = range(1, len(tree.labels))  # the root is no frame, and no id is 0
    profile = Profile(
        sample_type=[ValueType(type=texts[each], unit=texts[unit]) for each in kinds],
        sample=[Sample(location_id=reversed(frames), value=weights) for frames, weights in tree.stacks()],
        location=[Location(id=number, line=[Line(function_id=number)]) for number in numbers],
        function=[
            Function(id=number, name=texts[tree.labels[number]], system_name=texts[tree.labels[number]])
            for number in numbers
        ],
        time_nanos=begin_ns,
        duration_nanos=duration_ns,
        comment=[texts[tree.title]],
        default_sample_type=texts[kinds[0]],
    )
    profile.string_table.extend(texts.all)
    return gzip.compress(profile.SerializeToString(deterministic=True), compresslevel=5, mtime=0)


class _Texts:
    """The table of texts, the first of which is empty."""

    def __init__(self) -> None:
        self._places = {"": 0}

    def __getitem__(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    @property
    def all(self) -> list[str]:
        return list(self._places)
