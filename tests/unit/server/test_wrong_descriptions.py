"""Streams that an agent described wrongly are refused with the reason."""

from dataclasses import replace

import pytest

from scope_catalogue.catalogue import streams
from scope_catalogue.shown import Flame, Shown
from scope_catalogue.tables import SlowestRows
from scope_server.errors import InvalidQuery
from scope_server.store.answers.slowest import shown_as
from scope_server.store.answers.stacks import drawn
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.schema.columns import stream_table

PROFILE = streams()["profile"]


@pytest.mark.parametrize("flame", [Flame(weight="nothing"), Flame(weight="stack"), Flame(where="x = 1")])
def test_flame_graphs(flame: Flame) -> None:
    """A weight that is no number, or a filter on no column."""
    with pytest.raises(InvalidQuery, match="how profile is drawn is not valid"):
        drawn(stream_table(replace(PROFILE, shown=Shown(flame=flame)), BLOCKS), None, None)


@pytest.mark.parametrize(
    "rows",
    [
        SlowestRows((), "nothing", ()),
        SlowestRows((), "comm", ()),
        SlowestRows((), "duration_ns", ("stack",)),
        SlowestRows((), "duration_ns", (), causes={"x = 1": "x"}),
        SlowestRows((), "duration_ns", (), where="x = 1"),
    ],
)
def test_slowest_rows(rows: SlowestRows) -> None:
    """A duration or part that is no number, or a filter on no column."""
    with pytest.raises(InvalidQuery, match="how profile is shown is not valid"):
        shown_as(stream_table(replace(PROFILE, shown=Shown((rows,))), BLOCKS))
