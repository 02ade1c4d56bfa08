"""What a machine is told with its certificate: whom to trust, and where the server is."""

from collections.abc import Callable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from scope_proto.scope.v1 import enrolment_pb2
from scope_server.identity.authority import Authority
from scope_wire.endpoint import Endpoint


class Answers:
    """Makes the answers to machines.

    Args:
        where: the endpoints where the session service and the enrolment service listen. Empty: this server has none.
        advertised: names and addresses of this machine, as others reach it. Empty: where it listens.
        ports: of both services, as others reach them. Empty: where they listen.
    """

    def __init__(
        self,
        authority: Authority,
        where: Callable[[], Sequence[Endpoint]],
        advertised: Sequence[str],
        ports: Sequence[int] = (),
    ) -> None:
        self._authority, self._where, self._advertised, self._ports = authority, where, advertised, ports

    def with_certificate(self, certificate: x509.Certificate) -> enrolment_pb2.Certificate:
        """The answer with this certificate."""
        sessions, enrolments = self._addresses()
        return enrolment_pb2.Certificate(
            certificate=certificate.public_bytes(Encoding.DER),
            session_address=sessions[0],
            authorities=[each.public_bytes(Encoding.DER) for each in self._authority.trusted],
            session_addresses=sessions,
            enrolment_addresses=enrolments,
        )

    def enrolments(self) -> list[str]:
        """The addresses at which machines join; one without a host has the host by which this server is reached. Empty:
        this server admits no machines."""
        return self._addresses()[1] if self._where() else []

    def are_known(self, sessions: Sequence[str], enrolments: Sequence[str]) -> bool:
        """Whether a machine that knows the services at these addresses would be told the same now."""
        told = zip((sessions, enrolments), self._addresses(), strict=True)
        return all(_known(has, addresses) for has, addresses in told)

    def _addresses(self) -> tuple[list[str], list[str]]:
        """Of the session service, and of the enrolment service."""
        sessions, enrolments = self._where()
        ports = self._ports or [sessions.port, enrolments.port]
        return self._reached(sessions.at(port=ports[0])), self._reached(enrolments.at(port=ports[1]))

    def _reached(self, at: Endpoint) -> list[str]:
        """The addresses to tell machines: without a host if it listens on all addresses, and none is advertised."""
        if self._advertised:
            return [str(at.at(host=host)) for host in self._advertised]
        return [f":{at.port}"] if at.is_everywhere else [str(at)]


def _known(has: Sequence[str], told: Sequence[str]) -> bool:
    """Whether a machine has the addresses that are told. One without a host has the host at which it was told."""
    if told[0].startswith(":"):
        return len(has) == 1 and has[0].endswith(told[0])
    return list(has) == list(told)
