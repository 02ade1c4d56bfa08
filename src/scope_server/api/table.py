"""The one table of routes: everything that the server serves over HTTP."""

from scope_server.api.resources import (
    authority,
    certificates,
    description,
    events,
    members,
    metrics,
    nodes,
    quarantine,
    rollups,
    server,
    states,
    storage,
    tasks,
)
from scope_server.api.routing.route import Route

TABLE: tuple[Route, ...] = (
    *server.ROUTES,
    *storage.ROUTES,
    *nodes.ROUTES,
    *members.ROUTES,
    *tasks.ROUTES,
    *events.ROUTES,
    *rollups.ROUTES,
    *states.ROUTES,
    *quarantine.ROUTES,
    *authority.ROUTES,
    *certificates.ROUTES,
    *metrics.ROUTES,
    *description.ROUTES,
)
