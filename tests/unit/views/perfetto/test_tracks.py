"""The descriptions of tracks in a timeline."""

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from scope_views.perfetto.tracks import Tracks


def test_a_thread_has_its_latest_name() -> None:
    """Batches of several probes are not in order of time. A viewer shows the name that is described last."""
    tracks = Tracks()
    process = tracks.process(7, 1, "sh")
    numbers = [tracks.thread(process, 7, 8, name, at_ns) for name, at_ns in (("sh", 10), ("cat", 20), ("sh", 15))]
    assert len(set(numbers)) == 1
    described = [packet.track_descriptor for packet in proto.Trace.FromString(tracks.taken()).packet]
    assert [track.thread.thread_name for track in described if track.uuid == numbers[0]] == ["sh", "cat"]
