"""The catalogue of probes for this host, as a message."""

import asyncio

from scope_agentd.control.messages import probe_message
from scope_proto.scope.v1 import control_pb2


async def list_probes() -> control_pb2.ListProbesResponse:
    """All probes, each checked on this host."""
    from scope_bpf.capture.doctor import examine
    from scope_bpf.probes import probes

    known = list(probes().values())
    findings = [await asyncio.to_thread(examine, probe) for probe in known]
    return control_pb2.ListProbesResponse(
        probes=[probe_message(probe, finding) for probe, finding in zip(known, findings, strict=True)]
    )
