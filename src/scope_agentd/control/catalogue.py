"""The catalogue of probes with what this host allows, as the wire has it."""

import asyncio

from scope_agentd.control.messages import probe_message
from scope_proto.scope.v1 import control_pb2


async def list_probes() -> control_pb2.ListProbesResponse:
    """Every probe, tried on this host."""
    from scope_bpf.capture.doctor import examine
    from scope_bpf.probes import probes

    known = list(probes().values())
    findings = [await asyncio.to_thread(examine, probe) for probe in known]
    return control_pb2.ListProbesResponse(
        probes=[probe_message(probe, finding) for probe, finding in zip(known, findings, strict=True)]
    )
