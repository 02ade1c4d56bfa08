"""A stream's declaration of latest states is checked before its tables are made."""

from dataclasses import replace
from typing import Any

import pytest

from scope_bpf.catalogue.shown import Latest
from scope_bpf.probes import probe_named
from scope_server.errors import SchemaConflict
from scope_server.store.schema.columns import stream_tables

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
    probe = probe_named("cuda")
    (stream,) = (stream for stream in probe.streams if stream.name == "cuda_live")
    for latest in (GOOD, replace(GOOD, **wrong)):
        changed = replace(probe, streams=(replace(stream, latest=latest),))
        if latest is GOOD:
            assert stream_tables({"cuda": changed})["cuda_live"].latest == GOOD
        else:
            with pytest.raises(SchemaConflict, match=f"latest states need {said}"):
                stream_tables({"cuda": changed})


def test_the_total_that_ranks_is_of_whole_numbers() -> None:
    """The ranking total must be a whole number, so that additions and subtractions stay exact."""
    probe = probe_named("gpu")
    (stream,) = (stream for stream in probe.streams if stream.name == "gpu")
    assert stream.latest
    changed = replace(stream, latest=replace(stream.latest, totals=("power_watts",)))
    with pytest.raises(SchemaConflict, match="latest states need 'power_watts'"):
        stream_tables({"gpu": replace(probe, streams=(changed,))})
