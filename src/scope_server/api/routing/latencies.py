"""How long requests take, by route: counted where all of a request passes."""

import time
from collections.abc import Iterator, Mapping

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from scope_server.api.routing.route import Route

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # s
_OTHER = "other"  # the console's files, and what is no route


class Latencies(Collector):
    """Measures requests, and has the metrics. Answers that are streamed have no end, and are only counted.

    Args:
        routes: the declaration of each route of the API.
    """

    def __init__(self, routes: Mapping[web.AbstractRoute, Route]) -> None:
        self._routes, self._registry = routes, CollectorRegistry()
        self._seconds = Histogram(
            "scope_server_request_seconds",
            "Duration of requests to the API",
            ["route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._requests = Counter(
            "scope_server_requests", "Requests to the API by status", ["route", "status"], registry=self._registry
        )

    def collect(self) -> Iterator[Metric]:
        """The current metrics."""
        yield from self._registry.collect()

    @web.middleware
    async def measure(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Passes the request on, and counts it."""
        began = time.perf_counter()
        answer = await handler(request)
        route = self._routes.get(request.match_info.route)
        name = route.name if route else _OTHER
        self._requests.labels(name, f"{answer.status // 100}xx").inc()
        if isinstance(answer, web.Response):
            self._seconds.labels(name).observe(time.perf_counter() - began)
        return answer
