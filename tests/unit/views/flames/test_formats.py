"""Formats of flame graphs: each tells the same weights; texts of watched programs do no harm in any."""

import gzip
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from scope_proto.scope.v1.pprof_pb2 import Profile
from scope_views.flames.arrow import columns, ipc
from scope_views.flames.pprof import pprof
from scope_views.flames.speedscope import speedscope
from scope_views.flames.stacks import Stacks
from scope_views.flames.svg import picture
from scope_views.flames.text import folded_lines
from scope_views.flames.tree import Tree

HOSTILE = [
    "<b>&amp;\"'",
    "]]></script><script>alert(1)",
    "a\x1b[31m\u202eb",
    "semi;colon",
    "x" * 4096,
    "=cmd|' /C calc'!A0",
]
ONE = {"main;read_[k]": 5, "main": 2, "main;work (f.py:3)": 11}
OTHER = {"main;read_[k]": 1, "idle": 3}


def tree(*sides: Mapping[str, int], unit: str = "ns") -> Tree:
    stacks = Stacks(len(sides))
    for side, weights in enumerate(sides):
        frames = [[stacks.frame(name) for name in text.split(";")] for text in weights]
        stacks.add(frames, list(weights.values()), side)
    return stacks.tree("time, by stack", unit)


def stacked(frames: Sequence[str], unit: str = "ns") -> Tree:
    stacks = Stacks()
    stacks.add([[stacks.frame(frame) for frame in frames]], [7])
    return stacks.tree("", unit)


def read(profile: bytes) -> dict[tuple[str, ...], list[int]]:
    """What a reader of pprof's files finds: stacks by the names of their functions, outermost first."""
    found = Profile.FromString(gzip.decompress(profile))
    assert found.string_table[0] == ""
    names = {function.id: found.string_table[function.name] for function in found.function}
    locations = {location.id: names[location.line[0].function_id] for location in found.location}
    assert 0 not in locations
    return {tuple(locations[number] for number in reversed(one.location_id)): list(one.value) for one in found.sample}


def test_the_tree_adds_up() -> None:
    """A frame weighs what it weighs alone and what the frames below it weigh."""
    found = tree(ONE)
    shown = [
        (level, found.labels[label], value, own)
        for level, label, value, own in zip(found.level, found.label, found.value[0], found.own[0], strict=True)
    ]
    assert shown == [
        (0, "all", 18, 0),
        (1, "main", 18, 2),
        (2, "read_[k]", 5, 5),
        (2, "work (f.py:3)", 11, 11),
    ]


def test_stacks_are_added_up_on_each_side() -> None:
    """Whether one begins as another does, is given twice, weighs nothing or has no frames; sums are exact."""
    stacks = Stacks(2)
    a, b, c = (stacks.frame(name) for name in "abc")
    stacks.add([[a, b], [a], [a, b, c], [a, b], [c], []], [2**60 + 1, 3, 5, 7, 0, 11])
    stacks.add([[c, b], [a, b]], [13, 17], side=1)
    found = stacks.tree()
    named = [(level, found.labels[label]) for level, label in zip(found.level, found.label, strict=True)]
    assert named == [(0, "all"), (1, "a"), (2, "b"), (3, "c"), (1, "c"), (2, "b")]
    assert found.own.tolist() == [[11, 3, 2**60 + 8, 5, 0, 0], [0, 0, 17, 0, 0, 13]]
    assert found.value.tolist() == [[2**60 + 27, 2**60 + 16, 2**60 + 13, 5, 0, 0], [30, 17, 17, 0, 13, 13]]


def test_columns() -> None:
    """Kinds say of what a frame is; a second side has its own weights; metadata is kept."""
    with pa.ipc.open_stream(ipc(columns(tree(ONE, OTHER), {"samples": "22"}))) as stream:
        found = stream.read_all()
    assert found.schema.metadata == {b"title": b"time, by stack", b"unit": b"ns", b"samples": b"22"}
    assert found.schema.field("level").type == pa.uint16()
    assert found.to_pydict() == {
        "level": [0, 1, 1, 2, 2],
        "label": ["all", "idle", "main", "read_[k]", "work (f.py:3)"],
        "kind": ["", "user", "user", "kernel", "python"],
        "value": [18, 0, 18, 5, 11],
        "self": [0, 0, 2, 5, 11],
        "other_value": [4, 3, 1, 1, 0],
        "other_self": [0, 3, 0, 1, 0],
    }


def test_pprof_has_the_same_stacks() -> None:
    """With the unit that pprof knows; two sides are two values of each sample."""
    assert read(pprof(tree(ONE))) == {tuple(text.split(";")): [weight] for text, weight in ONE.items()}
    assert read(pprof(tree(ONE, OTHER)))["main", "read_[k]"] == [5, 1]
    found = Profile.FromString(gzip.decompress(pprof(tree(ONE), 10**18, 7)))
    (kind,) = found.sample_type
    assert (found.string_table[kind.type], found.string_table[kind.unit]) == ("time", "nanoseconds")
    assert (found.time_nanos, found.duration_nanos) == (10**18, 7)


def test_speedscope_has_the_same_stacks() -> None:
    """By the rules of its schema: sampled profiles whose samples name shared frames, with a weight for each sample."""
    found = json.loads(speedscope(tree(ONE, OTHER)))
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in found["shared"]["frames"]]
    for profile, side in zip(found["profiles"], (ONE, OTHER), strict=True):
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "nanoseconds", 0)
        assert profile["endValue"] == sum(side.values())
        told = zip(profile["samples"], profile["weights"], strict=True)
        assert {";".join(frames[place] for place in stack): weight for stack, weight in told} == side
    assert json.loads(speedscope(tree(ONE, unit="")))["profiles"][0]["unit"] == "none"


def test_folded_of_two_sides() -> None:
    """The second side's weight is first, as in a file of before and after."""
    lines = "".join(folded_lines({"one": tree(ONE, OTHER)}))
    assert lines == "idle 3 0\nmain 0 2\nmain;read_[k] 1 5\nmain;work (f.py:3) 0 11\n"


def test_a_picture_of_two_sides() -> None:
    """What weighs more on the first side is red, what weighs less is blue; a frame tells both."""
    drawn = ET.fromstring(picture([tree(ONE, OTHER)]))
    fills = {}
    for frame in drawn.iter("{http://www.w3.org/2000/svg}g"):
        if frame.get("class") == "frame":
            rect = frame.find("{http://www.w3.org/2000/svg}rect")
            assert rect is not None
            fills[frame.findtext("{http://www.w3.org/2000/svg}title", "").split("\n")[0]] = rect.get("fill", "")
    assert fills["main"].startswith("hsl(0,") and fills["idle"].startswith("hsl(220,")
    assert "inclusive: 5 ns, 27.78% against 1 ns, 25.00%" in "".join(drawn.itertext())


def test_equal_trees_are_equal_bytes() -> None:
    """Whatever the order in which stacks come."""
    one, other = tree(ONE), tree(dict(reversed(ONE.items())))
    assert pprof(one) == pprof(other)
    assert speedscope(one) == speedscope(other)
    assert picture([one]) == picture([other])


def test_no_stacks() -> None:
    """Every format has an answer, too."""
    nothing = Stacks().tree("nothing", "ns")
    assert read(pprof(nothing)) == {}
    assert json.loads(speedscope(nothing))["profiles"][0]["samples"] == []
    assert "".join(folded_lines({"one": nothing})) == ""
    assert ET.fromstring(picture([nothing])) is not None
    assert columns(nothing, {}).num_rows == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name: str) -> None:
    """No name becomes markup, a control character, another frame or another line."""
    found = stacked(["main", name])
    ET.fromstring(picture([found]))
    assert "<script>alert" not in picture([found]).replace("<![CDATA[", "")
    (line,) = "".join(folded_lines({"one": found})).splitlines()
    assert re.fullmatch(r"main;[^;]* 7", line)
    ((stack, _),) = read(pprof(found)).items()
    assert all(each.isprintable() for each in (*stack, line))
    assert len(json.loads(speedscope(found))["shared"]["frames"]) == 3


def test_a_deep_stack() -> None:
    """A stack of 10,000 frames makes no error."""
    deep = stacked([f"f{number}" for number in range(10_000)])
    assert len(deep) == 10_001
    assert ET.fromstring(picture([deep])) is not None
    assert len(next(iter(read(pprof(deep))))) == 10_000
