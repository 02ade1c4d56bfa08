"""The probes, one module or package each: what C cannot express, and all code that only this probe needs.

Probes are found by their module names; there is no list. Needs neither privileges nor the extension.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from scope_bpf.catalogue.probe import Probe
from scope_bpf.errors import LayoutMismatch, UnknownProbe


@cache
def probes() -> Mapping[str, Probe]:
    """All probes by name, in order of name.

    Raises:
        LayoutMismatch: two probes have a stream with the same name.
    """
    found = {}
    owners: dict[str, str] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        probe: Probe = importlib.import_module(f"scope_bpf.probes.{module.name}").PROBE
        for stream in probe.streams:
            if stream.name in owners:
                raise LayoutMismatch(f"probes '{owners[stream.name]}' and '{probe.name}' both have '{stream.name}'")
            owners[stream.name] = probe.name
        found[probe.name] = probe
    return found


def probe_named(name: str) -> Probe:
    """The probe with this name.

    Raises:
        UnknownProbe: no probe has this name.
    """
    known = probes()
    if name not in known:
        raise UnknownProbe(name, list(known))
    return known[name]
