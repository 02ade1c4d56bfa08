"""Perfetto messages, encoded column by column, are read back with the perfetto library."""

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from scope_views.perfetto.messages import Messages


def _read(messages: Messages) -> "list[proto.TracePacket]":
    trace = proto.Trace.FromString(Messages(messages.count).message(1, messages).encoded())
    return list(trace.packet)


@pytest.mark.parametrize("count", [0, 1, 1009])
def test_fields_are_what_the_library_reads(count: int) -> None:
    """The library reads integers of every size, doubles, and nested messages that some rows lack."""
    random = np.random.default_rng(count)
    times = random.integers(0, 2**63, count, np.uint64) >> random.integers(0, 64, count, np.uint64)
    doubles, signed = random.normal(0, 1e9, count), random.integers(-(2**40), 2**40, count)
    first, second = (random.integers(0, 2, count).astype(bool) for _ in range(2))
    argument = Messages(count).varint(4, signed)
    other = Messages(count).same(1, 7).double(5, doubles)
    event = Messages(count).same(9, 1).message(4, argument, first).message(4, other, second)
    packets = _read(Messages(count).varint(8, times).message(11, event))
    read = [
        (
            packet.timestamp,
            packet.track_event.type,
            [(one.name_iid, one.int_value, one.double_value) for one in packet.track_event.debug_annotations],
        )
        for packet in packets
    ]
    expected = [
        (
            int(times[row]),
            1,
            [(0, int(signed[row]), 0.0)] * int(first[row]) + [(7, 0, float(doubles[row]))] * int(second[row]),
        )
        for row in range(count)
    ]
    assert sorted(read) == sorted(expected)


def test_what_is_taken_is_of_its_rows() -> None:
    """taken() gives the columns, constants and nested messages of the given rows, in the given order."""
    numbers = np.arange(5) * 1000
    inner = Messages(5).varint(11, numbers + 1)
    messages = Messages(5).varint(8, numbers).same(10, 3).message(11, inner, numbers > 0)
    packets = _read(messages.taken(np.array([4, 2])))
    assert [(one.timestamp, one.trusted_packet_sequence_id, one.track_event.track_uuid) for one in packets] == [
        (4000, 3, 4001),
        (2000, 3, 2001),
    ]


def test_the_largest_integers() -> None:
    """Integers have all 64 bits."""
    values = np.array([2**64 - 1, 0, 2**63], np.uint64)
    assert [packet.timestamp for packet in _read(Messages(3).varint(8, values))] == [2**64 - 1, 0, 2**63]
