"""The server's metrics for Prometheus."""

from prometheus_client.exposition import choose_encoder

from scope_server.accounts.caller import Role
from scope_server.api.collected import registry
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Text
from scope_server.api.routing.route import Routes

ROUTES = Routes()


class Exposition(Text):
    """Metrics for Prometheus."""

    MEDIA = ("text/plain", "application/openmetrics-text")


@ROUTES.get("/metrics", Role.VIEWER)
async def get_metrics(call: Call) -> Exposition:
    """Metrics for Prometheus: text format, or OpenMetrics if requested. Without the database, only the server's own."""
    encode, content_type = choose_encoder(call.accept)
    return Exposition(content=encode(await registry(call.application)), content_type=content_type)
