"""Places: their data has the layout of the object's struct."""

import struct
from typing import Any

import pytest

from scope_bpf.catalogue.place import Place, Symbol
from scope_bpf.errors import LayoutMismatch
from scope_bpf.probes import probe_named, probes
from scope_catalogue.options import parse_options, trial

BTF = probe_named("cuda").btf


def kept(**keep: int | str) -> bytes:
    return Place(Symbol(("cudaFree", "cudaFree_ptsz")), "enter", keep=keep).descriptor(BTF, "cuda_place")


def test_a_place_is_kept_as_the_struct_lies_in_memory() -> None:
    """Enumerators become their values, and each value is at its member's offset. Other members are 0."""
    assert kept() == bytes(32)
    assert struct.unpack(
        "<4i16b", kept(kind="CUDA_MAP", memory="CUDA_PINNED", stream="CUDA_DEFAULT_STREAM", rows=-1)
    ) == (
        *(3, 2, 0, -2),
        *(0, 0, -1, *(13 * [0])),
    )


@pytest.mark.parametrize(
    ("keep", "said"),
    [
        ({"shoe_size": 3}, "place 'cudaFree': struct cuda_place takes no shoe_size 3"),
        ({"kind": "CUDA_NONSENSE"}, "takes no kind 'CUDA_NONSENSE'"),
        ({"rows": "CUDA_MAP"}, "takes no rows 'CUDA_MAP'"),
        ({"rows": 300}, "takes no rows 300"),
    ],
    ids=["member", "word", "no-enum", "too-large"],
)
def test_what_does_not_fit_is_named(keep: dict[str, Any], said: str) -> None:
    """The error for an unknown member, an unknown enumerator or a too large number names the wrong value."""
    with pytest.raises(LayoutMismatch, match=said):
        kept(**keep)


def test_a_return_is_attached_before_its_entry() -> None:
    """The return is attached first, so no call is recorded without its return. A place may have no return."""
    at = Symbol(("f",))
    assert Place(at, "enter", "leave").programs == ("leave", "enter")
    assert Place(at, "enter").programs == ("enter",)


def test_places_of_probes_can_be_attached_to() -> None:
    """The programs of all places are in the object, and no two places share a name."""
    for probe in probes().values():
        places = probe.places(parse_options(probe.options, trial(probe.options)))
        symbols = [place.at for place in places if isinstance(place.at, Symbol)]
        names = [name for at in symbols for name in at.names]
        assert len(names) == len(set(names))
        assert all(f"\0{program}\0".encode() in probe.elf for place in places for program in place.programs)
