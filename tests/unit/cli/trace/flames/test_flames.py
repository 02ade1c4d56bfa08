"""Flame graphs: stacks added up, as text and as a picture."""

import json
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from scope_bpf.catalogue.stream import Derived, Stream
from scope_catalogue.shown import Flame, Live
from scope_catalogue.stream import Column, Mode
from scope_cli.trace.flames.folded import MOST_STACKS, OTHER, Folded
from scope_cli.trace.flames.sink import FlameSink

SVG = "{http://www.w3.org/2000/svg}"
WORD = pa.dictionary(pa.int32(), pa.string())


def stream(name: str = "sample", flame: Flame | None = None) -> Stream:
    columns = {"ns": Column("time", "ns"), "nested": Column("not to be counted")}
    made = {"stack": Derived(Column("stack", stack=True), WORD), "kernel": Derived(Column("kernel"), WORD)}
    flame = flame or Flame(weight="ns", by=("comm",), unless="nested")
    return Stream(name, "what was sampled", columns, derived=made, flame=flame)


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


def written(path: Path, *batches: pa.RecordBatch, as_text: bool, of: Stream | None = None) -> str:
    of = of or stream()
    sink = FlameSink(path, [of], as_text=as_text)
    for one in batches:
        sink.write(of, one)
    sink.close()
    return path.read_text()


def test_weights_of_equal_stacks_are_added_up(tmp_path: Path) -> None:
    """Over batches; rows without a stack, and nested ones, do not count."""
    first, second = batch(("main;a", 5, 0), ("main", 2, 0), (None, 9, 0)), batch(("main;a", 3, 0), ("main;a", 9, 1))
    assert written(tmp_path / "f", first, second, as_text=True) == "worker;main 2\nworker;main;a 8\n"


def test_rows_are_counted_where_nothing_weighs(tmp_path: Path) -> None:
    """And what is called by the innermost frame is on top."""
    of = stream(flame=Flame(below=("kernel",)))
    text = written(
        tmp_path / "f", batch(("main", 5, 0), ("main", 7, 0)), batch(("main", 1, 0), kernel=None), as_text=True, of=of
    )
    assert text == "worker;main 1\nworker;main;k 2\n"


def test_states_weigh_what_they_weigh_last(tmp_path: Path) -> None:
    """Each row of a state replaces the one before; a state that has ended weighs nothing."""
    of = replace(stream(), mode=Mode.SUMMARY, gauge=True, live=Live(by=("stack",), totals=("ns",)))
    first = batch(("main;a", 5, 0), ("main;b", 2, 0), ("main;c", 7, 0))
    later = batch(("main;a", 3, 0), ("main;b", 0, 0))
    one, other = (
        pa.RecordBatch.from_arrays(
            [*each.columns, *(pa.array([number] * each.num_rows) for number in (7, 11))],
            [*each.schema.names, "pid", "start_ns"],
        )
        for each in (first, later)
    )
    assert written(tmp_path / "f", one, other, as_text=True, of=of) == "worker;main;a 3\nworker;main;c 7\n"


def test_several_streams_are_told_apart(tmp_path: Path) -> None:
    """In text by their names; each is a graph of the picture."""
    streams = [stream("one"), stream("two"), stream("empty")]
    for as_text in (True, False):
        sink = FlameSink(tmp_path / "f", streams, as_text=as_text)
        for each in streams[:2]:
            sink.write(each, batch(("main", 1, 0)))
        assert sink.close() == [f"{tmp_path}/f: 2 stacks"]
        if as_text:
            assert (tmp_path / "f").read_text() == "one;worker;main 1\ntwo;worker;main 1\n"
    root = ET.fromstring((tmp_path / "f").read_text())
    assert [each.get("class") for each in root.findall(f"{SVG}g")] == ["graph", "graph"]


def frames(svg: str) -> dict[str, tuple[float, float, float]]:
    """Left end, width and top of each frame, by name."""
    found = {}
    for frame in ET.fromstring(svg).iter(f"{SVG}g"):
        if frame.get("class") == "frame":
            rect, title = frame.find(f"{SVG}rect"), frame.findtext(f"{SVG}title", "")
            assert rect is not None
            found[title.split("\n")[0]] = tuple(float(rect.get(name, "")) for name in ("x", "width", "y"))
    return found


def test_frames_are_as_wide_as_they_weigh(tmp_path: Path) -> None:
    """A frame is below its caller, within its width; the root is at the top."""
    found = frames(written(tmp_path / "f", batch(("main;a", 3, 0), ("main;b", 1, 0), ("main", 4, 0)), as_text=False))
    assert found["all"][:2] == (0, 1200)
    assert (found["main"][1], found["a"][1], found["b"][1]) == (1200, 450, 150)
    assert found["b"][0] == found["a"][0] + found["a"][1]
    assert found["all"][2] < found["worker"][2] < found["main"][2] < found["a"][2] == found["b"][2]


def test_a_deep_stack_makes_the_picture_higher(tmp_path: Path) -> None:
    """And no narrower: the file has a size in pixels, so browsers scroll it and do not scale it."""
    deep = ";".join(f"f{number}" for number in range(187))
    root = ET.fromstring(written(tmp_path / "f", batch((deep, 1, 0)), as_text=False))
    height = root.get("height", "")
    assert int(height) > 187 * 17
    assert (root.get("width"), root.get("viewBox")) == ("1200", f"0 0 1200 {height}")


def test_a_frame_tells_inclusive_and_self(tmp_path: Path) -> None:
    """What it and the functions that it calls weigh, and what it weighs alone."""
    svg = written(tmp_path / "f", batch(("main;a", 3, 0), ("main", 1, 0)), as_text=False)
    assert "<title>main\ninclusive: 4 ns, 100.00%\nself: 1 ns, 25.00%</title>" in svg
    assert "<title>a\ninclusive: 3 ns, 75.00%\nself: 3 ns, 75.00%</title>" in svg


def test_names_of_all_kinds(tmp_path: Path) -> None:
    """Templates, quotes and markup in names do not break the picture."""
    names = ["std::vector<int>::push_back(int&&)", '"quoted" & <b>', "]]></script>", "ünïcode (f.py:3)", "read_[k]"]
    found = frames(written(tmp_path / "f", batch((";".join(names), 1, 0)), as_text=False))
    assert {*names} <= {*found}


def test_names_with_control_characters(tmp_path: Path) -> None:
    """They are escaped: XML has no place for them, and a newline would begin another stack in the text."""
    found = frames(written(tmp_path / "f", batch(("a\x01b;c\nd 7", 1, 0)), as_text=False))
    assert {r"a\x01b", r"c\nd 7"} <= {*found}
    assert r"a\x01b;c\nd 7 1" in written(tmp_path / "g", batch(("a\x01b;c\nd 7", 1, 0)), as_text=True)


def test_nothing_was_recorded(tmp_path: Path) -> None:
    """The picture says so."""
    of = stream()
    sink = FlameSink(tmp_path / "f", [of], as_text=False)
    assert sink.close() == [f"{tmp_path}/f: 0 stacks"]
    assert "no stacks were recorded" in (tmp_path / "f").read_text()


def test_memory_is_bounded() -> None:
    """Beyond a number of stacks, the lighter ones are added up as one; the total stays right."""
    folded = Folded(stream(), Flame(weight="ns"))
    rows = [(f"main;f{number}", 1 + number % 3, 0) for number in range(MOST_STACKS + 1)]
    folded.add(batch(*rows))
    kept = list(folded.stacks())
    assert len(kept) == MOST_STACKS // 2 + 1
    assert folded.total == sum(weight for _, weight in kept) == sum(weight for _, weight, _ in rows)
    assert [OTHER] in [frames for frames, _ in kept]


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
    script = Path(__file__).parents[5] / "src/scope_cli/trace/flames/flames.js"
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
