"""Flame graphs: stacks added up, as text and as a picture."""

import json
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.views.streams import stream as described

from scope_catalogue.shown import Flame, Latest
from scope_catalogue.stream import Column, DescribedStream, Mode
from scope_views.errors import NothingToShow
from scope_views.flames.folded import MOST_STACKS, Folded
from scope_views.flames.stacks import OTHER
from scope_views.flames.svg import picture
from scope_views.flames.text import folded_lines
from scope_views.flames.tree import Tree

SVG = "{http://www.w3.org/2000/svg}"


def stream(name: str = "sample", flame: Flame | None = None, **given: Any) -> DescribedStream:
    columns = {"ns": Column("time", "ns"), "nested": Column("not to be counted"), "kernel": Column("kernel")}
    flame = flame or Flame(weight="ns", by=("comm",), where="nested = 0")
    return described(
        {"comm": Column(""), **columns, "stack": Column("stack", stack=True)}, flame=flame, name=name, **given
    )


def batch(*rows: tuple[str | None, int, int], kernel: str | None = "k") -> pa.RecordBatch:
    """Rows of stack, ns and nested."""
    stacks, times, nested = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "comm": pa.array(["worker"] * len(rows)).dictionary_encode(),
            "stack": pa.array(stacks, pa.string()).dictionary_encode(),
            "ns": pa.array(times, pa.uint64()),
            "nested": pa.array(nested, pa.uint8()),
            "kernel": pa.array([kernel] * len(rows), pa.string()).dictionary_encode(),
        }
    )


def folded(of: DescribedStream, *batches: pa.RecordBatch) -> Tree:
    graph = Folded(of)
    for one in batches:
        graph.add(one)
    return graph.tree()


def text(*batches: pa.RecordBatch, of: DescribedStream | None = None) -> str:
    return "".join(folded_lines({"sample": folded(of or stream(), *batches)}))


def svg(*batches: pa.RecordBatch) -> str:
    return picture([folded(stream(), *batches)])


def test_weights_of_equal_stacks_are_added_up() -> None:
    """Over batches; rows without a stack, and nested ones, do not count."""
    first, second = batch(("main;a", 5, 0), ("main", 2, 0), (None, 9, 0)), batch(("main;a", 3, 0), ("main;a", 9, 1))
    assert text(first, second) == "worker;main 2\nworker;main;a 8\n"


def test_rows_are_counted_where_nothing_weighs() -> None:
    """And what is called by the innermost frame is on top."""
    of = stream(flame=Flame(below=("kernel",)))
    told = text(batch(("main", 5, 0), ("main", 7, 0)), batch(("main", 1, 0), kernel=None), of=of)
    assert told == "worker;main 1\nworker;main;k 2\n"


def test_states_weigh_what_they_weigh_last() -> None:
    """Each row of a state replaces the one before; a state that has ended weighs nothing."""
    of = stream(mode=Mode.SUMMARY, latest=Latest(("stack",), (), ("ns",)))
    first = batch(("main;a", 5, 0), ("main;b", 2, 0), ("main;c", 7, 0))
    later = batch(("main;a", 3, 0), ("main;b", 0, 0))
    one, other = (
        pa.RecordBatch.from_arrays(
            [*each.columns, *(pa.array([number] * each.num_rows) for number in (7, 11))],
            [*each.schema.names, "pid", "start_ns"],
        )
        for each in (first, later)
    )
    assert text(one, other, of=of) == "worker;main;a 3\nworker;main;c 7\n"


def test_several_streams_are_told_apart() -> None:
    """In text by their names; each is a graph of the picture."""
    graphs = {name: folded(stream(name), batch(("main", 1, 0))) for name in ("one", "two")}
    assert "".join(folded_lines(graphs)) == "one;worker;main 1\ntwo;worker;main 1\n"
    root = ET.fromstring(picture(list(graphs.values())))
    assert [each.get("class") for each in root.findall(f"{SVG}g")] == ["graph", "graph"]


def test_a_stream_without_stacks_has_no_graph() -> None:
    """The error names the stream."""
    with pytest.raises(NothingToShow, match="some has none"):
        Folded(described({"ns": Column("")}))


def frames(drawn: str) -> dict[str, tuple[float, float, float]]:
    """Left end, width and top of each frame, by name."""
    found = {}
    for frame in ET.fromstring(drawn).iter(f"{SVG}g"):
        if frame.get("class") == "frame":
            rect, title = frame.find(f"{SVG}rect"), frame.findtext(f"{SVG}title", "")
            assert rect is not None
            left, width, top = (float(rect.get(name, "")) for name in ("x", "width", "y"))
            found[title.split("\n")[0]] = (left, width, top)
    return found


def test_frames_are_as_wide_as_they_weigh() -> None:
    """A frame is below its caller, within its width; the root is at the top."""
    found = frames(svg(batch(("main;a", 3, 0), ("main;b", 1, 0), ("main", 4, 0))))
    assert found["all"][:2] == (0, 1200)
    assert (found["main"][1], found["a"][1], found["b"][1]) == (1200, 450, 150)
    assert found["b"][0] == found["a"][0] + found["a"][1]
    assert found["all"][2] < found["worker"][2] < found["main"][2] < found["a"][2] == found["b"][2]


def test_a_deep_stack_makes_the_picture_higher() -> None:
    """And no narrower: the file has a size in pixels, so browsers scroll it and do not scale it."""
    deep = ";".join(f"f{number}" for number in range(187))
    root = ET.fromstring(svg(batch((deep, 1, 0))))
    height = root.get("height", "")
    assert int(height) > 187 * 17
    assert (root.get("width"), root.get("viewBox")) == ("1200", f"0 0 1200 {height}")


def test_a_frame_tells_inclusive_and_self() -> None:
    """What it and the functions that it calls weigh, and what it weighs alone."""
    drawn = svg(batch(("main;a", 3, 0), ("main", 1, 0)))
    assert "<title>main\ninclusive: 4 ns, 100.00%\nself: 1 ns, 25.00%</title>" in drawn
    assert "<title>a\ninclusive: 3 ns, 75.00%\nself: 3 ns, 75.00%</title>" in drawn


def test_names_of_all_kinds() -> None:
    """Templates, quotes and markup in names do not break the picture."""
    names = ["std::vector<int>::push_back(int&&)", '"quoted" & <b>', "]]></script>", "ünïcode (f.py:3)", "read_[k]"]
    found = frames(svg(batch((";".join(names), 1, 0))))
    assert {*names} <= {*found}


def test_names_with_control_characters() -> None:
    """They are escaped: XML has no place for them, and a newline would begin another stack in the text."""
    found = frames(svg(batch(("a\x01b;c\nd 7", 1, 0))))
    assert {r"a\x01b", r"c\nd 7"} <= {*found}
    assert r"a\x01b;c\nd 7 1" in text(batch(("a\x01b;c\nd 7", 1, 0)))


def test_nothing_was_recorded() -> None:
    """The picture says so."""
    assert "no stacks were recorded" in picture([])


def test_memory_is_bounded() -> None:
    """Beyond a number of stacks, the lighter ones are added up as one; the total stays right."""
    graph = Folded(stream(flame=Flame(weight="ns")))
    rows = [(f"main;f{number}", 1 + number % 3, 0) for number in range(MOST_STACKS + 1)]
    graph.add(batch(*rows))
    tree = graph.tree()
    kept = [(frames, weight) for frames, (weight,) in tree.stacks()]
    assert len(kept) == MOST_STACKS // 2 + 1
    assert tree.total == sum(weight for _, weight in kept) == sum(weight for _, weight, _ in rows)
    assert [OTHER] in [[tree.labels[frame] for frame in frames] for frames, _ in kept]


SEARCH = """
const fs = require("fs");
const source = fs.readFileSync(process.argv[1], "utf8").split("document.querySelectorAll(\\".frame\\").forEach")[0];
const frame = (name, x, w) => ({
  dataset: {x, w}, marks: new Set(),
  querySelector: () => ({textContent: name}),
  classList: {toggle(mark, is) { is ? this.owner.marks.add(mark) : this.owner.marks.delete(mark); }},
});
const all = [frame("main", 0, 1200), frame("sort", 0, 300), frame("sort_inner", 0, 200), frame("resort", 600, 300)];
all.forEach((one) => (one.classList.owner = one));
const found = {};
global.document = {
  querySelectorAll: (what) => (what === ".frame" ? all : [1]),
  getElementById: () => found,
};
eval(source + ";globalThis.search = search");
const told = [];
for (const wanted of process.argv.slice(2)) { search(wanted); told.push(found.textContent); }
console.log(JSON.stringify(told));
"""


def test_search() -> None:
    """Frames on a frame that matches do not count again; a wrong expression is said to be one."""
    script = Path(__file__).parents[4] / "src/scope_views/flames/flames.js"
    try:
        output = subprocess.check_output(["node", "-e", SEARCH, script, "sort", "main", "nothing", "(", ""], text=True)
    except FileNotFoundError:
        pytest.skip("node is not installed")
    assert json.loads(output) == [
        "3 frames match, 50.0 %",
        "1 frames match, 100.0 %",
        "0 frames match, 0.0 %",
        "not a regular expression: (",
        "",
    ]
