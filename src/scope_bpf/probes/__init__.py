"""The probes, one module or package each: what C cannot express, and all code that only this probe needs.

Probes are found by their module names; there is no list. Needs neither privileges nor the extension.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from scope_bpf.catalogue.probe import Probe
from scope_bpf.errors import LayoutMismatch
from scope_catalogue.errors import UnknownProbe
from scope_catalogue.nearest import unknown


@cache
def probes() -> Mapping[str, Probe]:
    """All probes by name, in order of name.

    Raises:
        LayoutMismatch: two probes have a stream with the same name.
    """
    found = {name: probe_named(name) for name in _names()}
    owners: dict[str, str] = {}
    for probe in found.values():
        for stream in probe.streams:
            if stream.name in owners:
                raise LayoutMismatch(f"probes '{owners[stream.name]}' and '{probe.name}' both have '{stream.name}'")
            owners[stream.name] = probe.name
    return found


def probe_named(name: str) -> Probe:
    """The probe with this name; no other probe is imported.

    Raises:
        UnknownProbe: no probe has this name.
    """
    if name not in (known := _names()):
        raise UnknownProbe(name, unknown("probe named", name, known))
    probe: Probe = importlib.import_module(f"scope_bpf.probes.{name}").PROBE
    return probe


def _names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
