"""One module or package a probe: what its C cannot say, with all that only this probe needs.

Found by their names, listed nowhere. Needs neither privileges nor the extension.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from scope_bpf.catalogue.nearest import unknown
from scope_bpf.catalogue.probe import Probe
from scope_bpf.errors import LayoutMismatch, UnknownProbe


@cache
def probes() -> Mapping[str, Probe]:
    """Every probe by name, in order of name.

    Raises:
        LayoutMismatch: two probes have a stream of the same name.
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
    """The probe of this name; no other is imported.

    Raises:
        UnknownProbe: there is none.
    """
    if name not in (known := _names()):
        raise UnknownProbe(name, unknown("probe named", name, known))
    probe: Probe = importlib.import_module(f"scope_bpf.probes.{name}").PROBE
    return probe


def _names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
