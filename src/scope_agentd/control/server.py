"""The gRPC server of the control service, with health and reflection, so grpcurl needs no .proto files."""

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from scope_agentd.control.auth import RequireRole
from scope_agentd.control.health import Health
from scope_agentd.control.service import ControlService
from scope_agentd.errors import PortTaken
from scope_agentd.identity.membership import Membership
from scope_agentd.settings import Settings
from scope_proto.scope.v1 import control_pb2
from scope_proto.scope.v1.control_pb2_grpc import add_AgentControlServicer_to_server
from scope_wire.calls import BOUNDS, BoundCalls
from scope_wire.channel import listen, server_options
from scope_wire.endpoint import Endpoint
from scope_wire.refused.refusals import Refusals

SERVICE = control_pb2.DESCRIPTOR.services_by_name["AgentControl"].full_name


async def start_server(
    settings: Settings, membership: Membership, refusals: Refusals, health_of_agent: Health, service: ControlService
) -> tuple[grpc.aio.Server, str]:
    """Starts the server, on mutual TLS; returns the server and its host:port.

    Raises:
        PortTaken: another program listens on the port.
    """
    server = grpc.aio.server(
        interceptors=[BoundCalls(refusals), RequireRole(membership, refusals)], options=[*server_options(), *BOUNDS]
    )
    add_AgentControlServicer_to_server(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(health_of_agent.servicer, server)
    await health_of_agent.tell()
    names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    try:
        at = listen(server, Endpoint.parse(settings.control, "control").showing(membership.current), of_clients=True)
    except OSError as error:
        raise PortTaken(f"cannot listen on {settings.control}: {error}; choose another with --control") from None
    await server.start()
    return server, str(at)
