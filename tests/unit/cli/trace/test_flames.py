"""Files with flame graphs."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.views.streams import stream

from scope_catalogue.shown import Flame
from scope_cli.trace.flames import FlameSink

STREAMS = [stream(("stack",), flame=Flame(by=()), name=name) for name in ("one", "two", "empty")]
ROWS = pa.RecordBatch.from_pydict({"stack": ["main;a", "main"]})


@pytest.mark.parametrize("as_text", [True, False])
def test_one_file_has_all_streams(tmp_path: Path, as_text: bool) -> None:
    """Streams that had rows are told apart in it, and the last line says how many stacks it has."""
    sink = FlameSink(tmp_path / "f", STREAMS, as_text=as_text)
    for each in STREAMS[:2]:
        sink.write(each, ROWS)
    assert sink.close() == [f"{tmp_path}/f: 4 stacks"]
    told = (tmp_path / "f").read_text()
    if as_text:
        assert told == "one;main 1\none;main;a 1\ntwo;main 1\ntwo;main;a 1\n"
    else:
        assert ET.fromstring(told) is not None


def test_nothing_was_recorded(tmp_path: Path) -> None:
    """A picture is made, which says so."""
    assert FlameSink(tmp_path / "f", STREAMS, as_text=False).close() == [f"{tmp_path}/f: 0 stacks"]
    assert "no stacks were recorded" in (tmp_path / "f").read_text()
