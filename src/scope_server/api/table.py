"""The one table of routes: everything that the server serves over HTTP."""

from scope_server.api.resources import (
    api_tokens,
    audit,
    authority,
    certificates,
    description,
    events,
    live,
    login,
    members,
    metrics,
    nodes,
    quarantine,
    rollups,
    server,
    states,
    storage,
    tasks,
    users,
)
from scope_server.api.routing.route import Route

TABLE: tuple[Route, ...] = (
    *server.ROUTES,
    *storage.ROUTES,
    *nodes.ROUTES,
    *members.ROUTES,
    *tasks.ROUTES,
    *events.ROUTES,
    *live.ROUTES,
    *rollups.ROUTES,
    *states.ROUTES,
    *quarantine.ROUTES,
    *authority.ROUTES,
    *certificates.ROUTES,
    *login.ROUTES,
    *users.ROUTES,
    *api_tokens.ROUTES,
    *audit.ROUTES,
    *metrics.ROUTES,
    *description.ROUTES,
)
