"""Probes and streams as data, with the types that C says."""

from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import Stream
from scope_catalogue.probe import DescribedProbe
from scope_catalogue.stream import DescribedStream, TypedColumn


def described(probe: Probe) -> DescribedProbe:
    """A probe as data, with the streams whose rows are stored.

    Raises:
        NotSupported: the probe's object was not built.
    """
    streams = tuple(described_stream(probe, stream) for stream in probe.public_streams)
    return DescribedProbe(probe.name, probe.meaning, probe.options, streams, probe.guide)


def described_stream(probe: Probe, stream: Stream) -> DescribedStream:
    """A stream of a probe as data."""
    schema = probe.schema(stream)
    columns = tuple(
        TypedColumn(name=name, type=str(schema.field(name).type), **vars(column))
        for name, column in stream.described().items()
    )
    return DescribedStream(
        name=stream.name,
        probe=probe.name,
        mode=stream.mode,
        meaning=stream.meaning,
        columns=columns,
        rollup=stream.rollup,
        latest=stream.latest,
        failed=stream.failed,
        shown=stream.shown,
    )
