"""The whole agent, composed in the order in which data flows."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, closing

from scope_agentd.annotations.delivery import Delivery
from scope_agentd.annotations.outbox import Outbox
from scope_agentd.annotations.socket import AnnotationSocket
from scope_agentd.bus.bus import Bus
from scope_agentd.control.examination import Examination
from scope_agentd.control.health import Health
from scope_agentd.control.server import SERVICE, start_server
from scope_agentd.control.service import ControlService
from scope_agentd.cost import sample_costs
from scope_agentd.errors import StateUnusable
from scope_agentd.identity.membership import Membership
from scope_agentd.left_runs import close_left_runs
from scope_agentd.memory import TaskMemory
from scope_agentd.metrics import AgentCollector, registry
from scope_agentd.metrics_server import MetricsServer
from scope_agentd.node import describe_node, installation_id
from scope_agentd.own_processes import families
from scope_agentd.pins import Pins
from scope_agentd.pipeline.descriptions import Descriptions
from scope_agentd.pipeline.spool import Spool
from scope_agentd.place import Place
from scope_agentd.run import Surroundings
from scope_agentd.session.acknowledged import Acknowledged
from scope_agentd.session.attend import Attendance
from scope_agentd.session.link import Link
from scope_agentd.session.upload import Upload
from scope_agentd.settings import OPTIONS, Settings
from scope_agentd.starts import Starts
from scope_agentd.tasks import Tasks
from scope_agentd.totals import Totals
from scope_agentd.wanted import WantedFile
from scope_bpf.host import raise_limit_of_descriptors, unreadable
from scope_wire.background import background
from scope_wire.refused.refusals import Refusals

log = logging.getLogger(__name__)


async def serve(
    settings: Settings,
    stop: asyncio.Event,
    ready: Callable[[str], None] = lambda _: None,
    refusals: Refusals | None = None,
) -> None:
    """Runs the agent until `stop` is set.

    Args:
        ready: called with the control address.
        refusals: counts refused peers.

    Raises:
        NotJoined: this machine has no server.
        StateUnusable, SpoolInUse: the state directory cannot be used, or another agent uses it.
        PortTaken: another program listens on the agent's port.
        ExceptionGroup: background work failed.
    """
    raise_limit_of_descriptors()  # else a thousand peers that connect and say nothing shut out all others
    for missing in unreadable():
        log.warning("a capability is missing, so this is not known of processes", extra={"missing": missing})
    refusals = refusals or Refusals()
    with ExitStack() as kept:
        spool, descriptions, pins = _state(settings, kept)
        membership = Membership(settings.state_dir)
        bus = kept.enter_context(closing(Bus(settings.state_dir)))
        node = describe_node(settings.state_dir, membership.machine_id)
        totals = Totals()
        memory = TaskMemory(settings.task_bytes)
        tasks = Tasks(
            WantedFile(settings.state_dir / "tasks.json", membership.fleet.fleet),
            lambda changed: Surroundings(
                spool,
                descriptions,
                bus,
                pins,
                totals,
                Starts(),
                memory,
                lambda: families(settings.exclude_pid),
                changed,
            ),
        )
        examination = Examination(settings.examine_after_s, options=settings.examine_with == OPTIONS)
        acknowledged = Acknowledged()
        upload = Upload(node, spool, descriptions, acknowledged)
        attendance = Attendance(node, tasks, spool, membership, examination, acknowledged=acknowledged)
        outbox = kept.enter_context(closing(Outbox(settings.state_dir / "annotations.sqlite")))
        annotations = AnnotationSocket(outbox)
        link = Link(membership, settings.server, attendance, upload, Delivery(outbox, annotations.news))
        collector = AgentCollector(
            node,
            tasks,
            totals,
            spool,
            bus=bus,
            link=link,
            upload=upload,
            annotations=annotations,
            refusals=refusals,
        )
        async with AsyncExitStack() as cleanup:
            health = Health(membership, ("", SERVICE))
            metrics = MetricsServer(registry(collector), health.trouble)
            await metrics.start(settings.metrics)
            cleanup.push_async_callback(metrics.stop)
            taking = await annotations.listen(settings.state_dir)
            cleanup.callback(taking.close)
            server, address = await start_server(
                settings, membership, refusals, health, ControlService(node, tasks, examination)
            )
            cleanup.push_async_callback(server.stop, 1.0)
            async with background(
                tasks=tasks.pursue(),
                session=link.run(),
                health=health.watch(),
                costs=sample_costs(tasks),
                examination=examination.run(),
                spool=spool.watch(),
                bus=bus.watch(),
            ):
                log.info("agent listens", extra={"control": address, "metrics": settings.metrics})
                ready(address)
                try:
                    await stop.wait()
                finally:
                    await tasks.stop_all()
                # Without a server there is nothing to wait for: the spool keeps the records.
                await _deliver_rest(spool, settings.stop_deadline_s if link.connected else 0.0)


def _state(settings: Settings, kept: ExitStack) -> tuple[Spool, Descriptions, Pins]:
    """Opens the agent's files on disk, and closes the runs that a killed agent left open."""
    state = settings.state_dir
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = Place(state)
        place.claim()
        spool = kept.enter_context(closing(Spool(state / "spool", settings.spool_bytes)))
        descriptions = Descriptions(state / "descriptions")
        if not spool.held().records:
            descriptions.forget()
        kept.callback(place.release)
        pins = kept.enter_context(closing(Pins(state, installation_id(state))))
    except OSError as error:
        raise StateUnusable(f"cannot use the state directory {state}: {error.strerror or error}") from None
    close_left_runs(spool, pins)
    return spool, descriptions, pins


async def _deliver_rest(spool: Spool, deadline_s: float) -> None:
    try:
        async with asyncio.timeout(deadline_s):
            await spool.wait_until_empty()
    except TimeoutError:
        held = spool.held()
        log.warning(
            "stopped before the server had all records; the rest stays in the spool", extra={"records": held.records}
        )
