"""The catalogue of probes for this host, as a message. Run as a program, it writes the message to standard output."""

import os
import sys

from scope_agentd.control.messages import feature_message, probe_message
from scope_proto.scope.v1 import control_pb2

ALSO_OPTIONS = "--options"  # the program's argument
_NICE = 10  # recorded programs and tasks go first


def list_probes(*, options: bool) -> control_pb2.ListProbesResponse:
    """All probes, each tried on this host, and the host's features: the report of `scope doctor [--options]`."""
    from scope_bpf.capture.doctor import examine_all
    from scope_bpf.host import features
    from scope_bpf.probes import probes

    known = list(probes().values())
    findings = list(examine_all(known, options=options))
    listed = control_pb2.ListProbesResponse(
        probes=[probe_message(probe, finding) for probe, finding in zip(known, findings, strict=True)],
        host=map(feature_message, features()),
    )
    listed.examined.GetCurrentTime()
    return listed


if __name__ == "__main__":
    from scope_bpf.binding.capability import set_aside

    os.nice(_NICE)
    set_aside()  # tasks do not have them either
    sys.stdout.buffer.write(list_probes(options=ALSO_OPTIONS in sys.argv).SerializeToString())
