"""The agent as a whole: composed here, in the order that data takes."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from prometheus_client import start_http_server

from scope_agentd.control.server import start_server
from scope_agentd.control.service import ControlService
from scope_agentd.cost import sample_costs
from scope_agentd.errors import PortTaken
from scope_agentd.metrics import registry
from scope_agentd.node import describe_node
from scope_agentd.pipeline.queue import Queue
from scope_agentd.pipeline.ship import Shipper
from scope_agentd.settings import Settings
from scope_agentd.tasks import Tasks
from scope_agentd.used_ids import UsedIds
from scope_proto.scope.v1 import ingest_pb2

log = logging.getLogger(__name__)


async def serve(settings: Settings, stop: asyncio.Event, ready: Callable[[str], None] = lambda _: None) -> None:
    """Runs the agent until `stop` is set; `ready` is told the control address.

    Raises:
        PortTaken: another program listens where the agent was to.
    """
    node = describe_node(settings.state_dir)
    queue = Queue(settings.queue_bytes)
    tasks = Tasks(node.machine_id, queue, settings.excluded_pids, UsedIds(settings.state_dir / "task-ids"))
    address = ""
    shipper = Shipper(
        settings.server,
        token=lambda: settings.token_file.read_text().strip(),
        hello=lambda: ingest_pb2.Hello(node=node, control_address=address),
        queue=queue,
    )
    async with AsyncExitStack() as cleanup:
        cleanup.callback(_serve_metrics(settings, tasks, queue, shipper))
        server, address = await start_server(settings, ControlService(node, tasks, shipper))
        for work in (shipper.run(), sample_costs(tasks)):
            cleanup.push_async_callback(_cancel, asyncio.create_task(work))
        cleanup.push_async_callback(_deliver_rest, queue, settings.stop_deadline_s)
        cleanup.push_async_callback(tasks.stop_all)
        # Stopped first: nobody may start a task in an agent that ends.
        cleanup.push_async_callback(server.stop, 1.0)
        log.info("agent listens", extra={"control": address, "metrics": settings.metrics})
        ready(address)
        await stop.wait()


async def _cancel(work: asyncio.Task[None]) -> None:
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def _serve_metrics(settings: Settings, tasks: Tasks, queue: Queue, shipper: Shipper) -> Callable[[], None]:
    host, _, port = settings.metrics.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host, registry(tasks, queue, shipper))
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {settings.metrics}: {error.strerror}; choose another with --metrics"
        ) from None

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close


async def _deliver_rest(queue: Queue, deadline_s: float) -> None:
    try:
        await asyncio.wait_for(queue.wait_until_empty(), deadline_s)
    except TimeoutError:
        log.error(
            "stopped with batches that the server has not",
            extra={"batches": queue.held_batches, "events": queue.held_events},
        )
