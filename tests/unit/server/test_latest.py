"""A stream's declaration of latest states is checked before its tables are made."""

from dataclasses import replace
from typing import Any

import pytest

from scope_catalogue.catalogue import streams
from scope_catalogue.shown import Latest
from scope_server.errors import SchemaConflict
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.schema.columns import stream_table

GOOD = Latest(key=("stack_id",), by=("comm",), totals=("live_bytes",))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": ("nonsense",)}, "'nonsense'"),
        ({"by": ("pid",)}, "'pid'"),  # kept in store.processes, and in every key already
        ({"totals": ()}, "a total that ranks them"),
        ({"totals": ("nonsense",)}, "'nonsense'"),
        ({"means": {"mean_age_ns": "nonsense"}}, "'nonsense'"),
        ({"held": ("live_bytes", "nonsense")}, "'nonsense'"),
        ({"ended": "nonsense"}, "'nonsense'"),
    ],
)
def test_what_no_column_can_tell_is_refused(wrong: dict[str, Any], said: str) -> None:
    """A wrong declaration is refused; the message names what the latest states need."""
    stream = streams()["cuda_live"]
    assert stream_table(replace(stream, latest=GOOD), BLOCKS).latest == GOOD
    with pytest.raises(SchemaConflict, match=f"latest states need {said}"):
        stream_table(replace(stream, latest=replace(GOOD, **wrong)), BLOCKS)


def test_the_total_that_ranks_is_of_whole_numbers() -> None:
    """The ranking total must be a whole number, so that additions and subtractions stay exact."""
    stream = streams()["gpu"]
    assert stream.latest
    changed = replace(stream, latest=replace(stream.latest, totals=("power_watts",)))
    with pytest.raises(SchemaConflict, match="latest states need 'power_watts'"):
        stream_table(changed, BLOCKS)
