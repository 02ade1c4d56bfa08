"""The whole server, composed in the order in which data flows."""

import asyncio
import logging
import resource
import secrets
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any

from aiohttp import web

from scope_catalogue.catalogue import streams
from scope_proto.scope.v1.enrolment_pb2_grpc import add_EnrolmentServicer_to_server
from scope_proto.scope.v1.session_pb2_grpc import add_SessionServicer_to_server
from scope_server.accounts.accounts import Accounts
from scope_server.accounts.noticed import Noticed
from scope_server.api import context
from scope_server.api.application import application
from scope_server.api.authentication import by_accounts
from scope_server.api.collected import collected
from scope_server.api.routing.reads import SOURCES, Sources
from scope_server.exports.exports import Exports, Stored
from scope_server.fleet import Fleet, alone
from scope_server.identity.answer import Answers
from scope_server.identity.authority import Authority
from scope_server.identity.enrolment import EnrolmentService
from scope_server.identity.members import Members
from scope_server.identity.register import Register
from scope_server.ingest.admit import Admission
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.writers import Writers
from scope_server.listen import serve_grpc, serve_http
from scope_server.live.committed import Committed
from scope_server.live.hub import Hub
from scope_server.session.changes import Changes
from scope_server.session.desired import Desired
from scope_server.session.reconcile import Reconciler
from scope_server.session.reports import Reports
from scope_server.session.restored import Restored
from scope_server.session.seen import Seen
from scope_server.session.service import SessionService
from scope_server.session.sessions import Sessions
from scope_server.settings import ANYBODY, Settings
from scope_server.signals import Topic
from scope_server.store.annotations import Annotations
from scope_server.store.latest.reader import States
from scope_server.store.layout.choice import LAYOUTS
from scope_server.store.reading.columns import Columns
from scope_server.store.reading.database import Database, Share
from scope_server.store.reading.learnt import follow
from scope_server.store.reading.reader import Reader
from scope_server.store.reading.replica import Replica
from scope_server.store.reading.replicas import Replicas
from scope_server.store.retention import Closed, Disk, Retention, Sweep
from scope_server.store.schema.tables import Tables
from scope_server.store.upkeep.chores import chores
from scope_server.store.upkeep.readers import Readers
from scope_server.store.upkeep.upkeep import Job, Upkeep
from scope_server.store.writing.quarantine import Quarantine
from scope_wire.background import background
from scope_wire.calls import BoundCalls
from scope_wire.endpoint import Endpoint
from scope_wire.keys import Credentials
from scope_wire.refused.refusals import Refusals

log = logging.getLogger(__name__)

_WAITING = 100  # calls of agents that are not accepted or refused yet
_STRANGERS = 10_000  # calls of who has no certificate: each is short, or cut


async def serve(
    settings: Settings,
    stop: asyncio.Event,
    listens: Callable[[str, str, str], None] = lambda *_: None,
    ready: Callable[[], None] = lambda: None,
    refusals: Refusals | None = None,
) -> None:
    """Runs the server until `stop` is set.

    The server listens at once. Requests get an error until the database is available and has this server's schema.

    Args:
        listens: called with the addresses of the API, ingest and enrolment.
        ready: called when the database has this server's schema.
        refusals: counts refused peers.

    Raises:
        InvalidSettings: the password file or the authority cannot be used.
        AddressTaken: another program listens on one of the addresses.
        ExceptionGroup: background work ended; contains a SchemaConflict if the tables contradict the catalogue.
    """
    _allow_descriptors()
    tables = Tables(streams().values(), LAYOUTS[settings.layout])
    authority, conninfo = Authority(settings.authority, settings.given_authority), settings.direct()
    async with AsyncExitStack() as cleanup:
        database = await cleanup.enter_async_context(
            Database(
                settings.conninfo(),
                settings.connections,
                settings.statement_timeout_s,
                direct=conninfo if settings.direct_database else "",
            )
        )
        share = Share(database, max(1, settings.connections // 2))
        written = Backlog(settings.backlog_bytes, settings.writers if settings.writes else 0)
        disk = Disk(settings.free_floor, settings.keep_bytes)
        fleet, backlog = _fleet(settings, secrets.token_hex(8), written)
        cleanup.push_async_callback(fleet.close)
        directory, committed = fleet.directory, Committed()
        fleet.signals.on(Topic.COMMITTED, committed.tell)
        writers = Writers(
            written,
            conninfo,
            tables,
            settings.keep_days,
            kept_bytes=settings.quarantine_bytes,
            committed=partial(fleet.signals.tell, Topic.COMMITTED),
            disk=disk if settings.writes else None,  # upkeep looks at it
        )
        cleanup.push_async_callback(writers.stop, settings.stop_deadline_s)
        sessions = Sessions(Share(database, max(1, settings.connections // 4)), settings.sessions, directory)
        fleet.signals.on(Topic.PROBES, sessions.ask_for_probes)
        reports, seen, annotations = Reports(share, directory), Seen(share), Annotations(share)
        members = Members(database, authority, timedelta(days=settings.grace))
        register = Register(database, authority, members, refusals or Refusals(), fleet.signals)
        endpoints: list[Endpoint] = []
        answers = Answers(authority, lambda: endpoints, settings.advertise, settings.advertise_ports)
        accounts = Accounts(
            database, authority.secret, fleet.limits, open_registration=settings.registration == ANYBODY
        )
        api = application(by_accounts(accounts), fleet.limits, settings.cors_origins, settings.proxies)
        reader = Reader(database)
        api[context.COLUMNS] = await cleanup.enter_async_context(
            Columns(database, conninfo, settings.statement_timeout_s)
        )
        hub = api[context.HUB] = Hub(reader, committed)
        api[context.ACCOUNTS], api[context.READER], api[context.FLEET] = accounts, reader, fleet
        api[context.DATABASE], api[context.TABLES], api[SOURCES] = (
            database,
            tables,
            await _sources(settings, conninfo, cleanup),
        )
        api[context.MEMBERS], api[context.REGISTER], api[context.ENROLMENTS] = members, register, answers
        api[context.STATES], api[context.SESSIONS], api[context.DESIRED] = (
            States(database),
            sessions,
            Desired(database, directory),
        )
        api[context.BACKLOG], api[context.WRITERS], api[context.ANNOTATIONS] = backlog, writers, annotations
        retention = Retention(disk, settings.keep_days, layout=tables.layout)
        upkeep = Upkeep(conninfo, _jobs(retention, conninfo, tables, settings.keep_days), disk)
        api[context.DISK], api[context.RETENTION], api[context.UPKEEP] = disk, retention, upkeep
        api[context.QUARANTINE], api[context.EXPORTS] = (
            Quarantine(
                conninfo,
                tables,
                Admission(tables, settings.keep_days),
                partial(fleet.signals.tell, Topic.COMMITTED),
            ),
            Exports(settings, Stored(conninfo, database, reader, tables), partial(collected, api)),
        )
        own = partial(authority.own, settings.advertise)
        http = await serve_http(api, Endpoint.parse(settings.http, "http"), settings.socket, own, cleanup)
        restored = Restored(share, partial(database.prepare_again, tables))
        changes = Changes(share, conninfo)
        reconciler = Reconciler(share, changes, reports, backlog, sessions, restored=restored)
        service = SessionService(
            register,
            answers,
            sessions,
            reports=reports,
            seen=seen,
            reconciler=reconciler,
            backlog=backlog,
            # A writer knows only the streams that it learns from what comes with the records.
            tables=Tables(streams().values(), tables.layout) if settings.redis else tables,
            annotations=annotations,
            limits=fleet.limits,
        )
        if settings.receives:
            endpoints += await _for_agents(
                settings, service, EnrolmentService(register, answers), own, refusals=register.refusals, cleanup=cleanup
            )
        ingest, enrol = map(str, endpoints or ("", ""))
        log.info("server listens", extra={"http": str(http), "ingest": ingest, "enrol": enrol, "role": settings.role})
        listens(str(http), ingest, enrol)
        store = _store(
            database,
            tables,
            writers,
            {
                "certificates": partial(register.watch, sessions),
                "history": partial(restored.watch, sessions),
                "learnt": partial(follow, database, tables),
                "live": hub.run,
                "replicas": api[SOURCES].replicas.watch,
                "exports": api[context.EXPORTS].run,
                **(
                    {"upkeep": upkeep.run, "noticed": Noticed(share, accounts.audit, settings.policy).run}
                    if settings.writes
                    else {}
                ),
                **(
                    {"wishes": reconciler.run, "changes": changes.listen, "seen": seen.run} if settings.receives else {}
                ),
            },
            ready,
        )
        async with background(store=store, reports=reports.run(), **{name: run() for name, run in fleet.work.items()}):
            await stop.wait()


def _jobs(retention: Retention, conninfo: str, tables: Tables, keep_days: int) -> list[Job]:
    return [Readers(), retention, Sweep(tables.layout), Closed(keep_days, tables.layout), *chores(conninfo, tables)]


async def _for_agents(
    settings: Settings,
    service: SessionService,
    enrolment: EnrolmentService,
    own: Callable[[], Credentials],
    *,
    refusals: Refusals,
    cleanup: AsyncExitStack,
) -> list[Endpoint]:
    ingest = await serve_grpc(
        "ingest",
        partial(add_SessionServicer_to_server, service),
        Endpoint.parse(settings.ingest, "ingest").showing(own),
        cleanup,
        calls=2 * settings.sessions + _WAITING,
        bound=BoundCalls(refusals),
    )
    enrol = await serve_grpc(
        "enrol",
        partial(add_EnrolmentServicer_to_server, enrolment),
        Endpoint.parse(settings.enrol, "enrol").showing(own),
        cleanup,
        calls=_STRANGERS,
        bound=None,
    )
    return [ingest, enrol]


async def _sources(settings: Settings, conninfo: str, cleanup: AsyncExitStack) -> Sources:
    """The replicas, each with what reads from it."""
    objects: dict[Replica, dict[web.AppKey[Any], Any]] = {}
    for text in settings.replicas():
        replica = await cleanup.enter_async_context(Replica(text, settings.connections, settings.statement_timeout_s))
        columns = await cleanup.enter_async_context(Columns(replica, text, settings.statement_timeout_s))
        objects[replica] = {
            context.DATABASE: replica,
            context.READER: Reader(replica),
            context.COLUMNS: columns,
            context.STATES: States(replica),
        }
    return Sources(Replicas(conninfo, list(objects), settings.read_age_s), objects)


def _fleet(settings: Settings, server: str, written: Backlog) -> tuple[Fleet, Backlog]:
    """What is shared, and the backlog of what agents send: that of the writers, unless Redis is between."""
    at = settings.redis_address()
    if at is None:
        return alone(server), written
    from scope_server.redis.fleet import Records, joined  # noqa: PLC0415  # a server that is alone needs no Redis

    received = Backlog(settings.backlog_bytes, 1)
    records = Records(
        received if settings.receives else None, written if settings.writes else None, settings.redis_bytes
    )
    return joined(server, at, records), received


async def _store(
    database: Database,
    tables: Tables,
    writers: Writers,
    work: Mapping[str, Callable[[], Coroutine[None, None, None]]],
    ready: Callable[[], None],
) -> None:
    await database.prepare(tables)
    ready()
    async with background(**{name: begin() for name, begin in work.items()}):
        await writers.watch()


def _allow_descriptors() -> None:
    """Raises the limit of open files as far as it may be: each agent needs one, and shells give 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
