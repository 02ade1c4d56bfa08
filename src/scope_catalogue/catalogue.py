"""Reads catalogue.json, which the build writes (`python -m scope_bpf`)."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from scope_catalogue.encoding import from_json, to_json
from scope_catalogue.errors import CatalogueMissing, UnknownProbe
from scope_catalogue.nearest import unknown
from scope_catalogue.probe import DescribedProbe
from scope_catalogue.stream import DescribedStream


@cache
def probes() -> Mapping[str, DescribedProbe]:
    """All probes by name, in order of name.

    Raises:
        CatalogueMissing: the build did not write the catalogue.
    """
    try:
        text = (files("scope_catalogue") / "catalogue.json").read_text()
    except FileNotFoundError:
        raise CatalogueMissing("scope_catalogue/catalogue.json is missing; run `make catalogue`") from None
    found = (from_json(DescribedProbe, each) for each in json.loads(text)["probes"])
    return {probe.name: probe for probe in found}


def probe_named(name: str) -> DescribedProbe:
    """The probe with this name.

    Raises:
        UnknownProbe: no probe has this name.
    """
    if name not in (known := probes()):
        raise UnknownProbe(name, unknown("probe named", name, known))
    return known[name]


def streams() -> Mapping[str, DescribedStream]:
    """The streams of all probes, by name."""
    return {stream.name: stream for probe in probes().values() for stream in probe.streams}


def written(catalogue: Iterable[DescribedProbe]) -> dict[str, Any]:
    """The content of catalogue.json."""
    return {"probes": [to_json(probe) for probe in catalogue]}
