"""The server as a whole: composed here, in the order that data takes."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import grpc
from aiohttp import web

from scope_bpf.catalogue import probes
from scope_proto.scope.v1.ingest_pb2_grpc import add_IngestServicer_to_server
from scope_server.api import events, health, leaks, nodes, openapi, tasks
from scope_server.api.context import AGENTS, DATABASE, READER, TABLES, WRITERS
from scope_server.api.problems import explain, require_token
from scope_server.control.agents import Agents
from scope_server.errors import AddressTaken
from scope_server.ingest.queue import BatchQueue
from scope_server.ingest.service import IngestService
from scope_server.ingest.writers import Writers
from scope_server.settings import Settings, loopback_address
from scope_server.store.columns import StreamTable, stream_tables
from scope_server.store.database import Database
from scope_server.store.reader import Reader
from scope_server.token import Token

log = logging.getLogger(__name__)

_MESSAGE_BYTES = (1 << 20) + (64 << 10)  # batches stay under 1 MiB


async def serve(settings: Settings, stop: asyncio.Event, ready: Callable[[str, str], None] = lambda *_: None) -> None:
    """Runs the server until `stop` is set; `ready` is told the addresses of the API and of the ingest service.

    Raises:
        StoreUnavailable: the database did not come in time.
        SchemaConflict: its tables contradict the catalogue.
        AddressTaken: another program listens where the server was to.
    """
    tables = stream_tables(probes())
    token = Token(settings.token_file)
    async with AsyncExitStack() as cleanup:
        database = Database(settings.database, settings.connections, settings.statement_timeout_s)
        await cleanup.enter_async_context(database)
        await database.prepare(tables.values(), settings.database_wait_s)
        queue = BatchQueue(settings.queue_bytes)
        writers = Writers(queue, settings.database, tables, settings.writers)
        cleanup.push_async_callback(writers.stop, settings.stop_deadline_s)
        agents = Agents(database, token)
        http = await _serve_http(settings, _application(token, database, agents, writers, tables), cleanup)
        ingest = await _serve_ingest(settings, IngestService(token, queue, agents), cleanup)
        log.info("server listens", extra={"http": http, "ingest": ingest})
        ready(http, ingest)
        await stop.wait()


def _application(
    token: Token, database: Database, agents: Agents, writers: Writers, tables: Mapping[str, StreamTable]
) -> web.Application:
    application = web.Application(middlewares=[explain, require_token(token)], client_max_size=64 << 10)
    application[DATABASE] = database
    application[READER] = Reader(database)
    application[AGENTS] = agents
    application[WRITERS] = writers
    application[TABLES] = tables
    for resource in (health, nodes, tasks, events, leaks, openapi):
        application.add_routes(resource.ROUTES)
    return application


async def _serve_http(settings: Settings, application: web.Application, cleanup: AsyncExitStack) -> str:
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    cleanup.push_async_callback(runner.cleanup)
    host, port = loopback_address(settings.http, "http")
    site = web.TCPSite(runner, host, port, reuse_address=True)
    try:
        await site.start()
    except OSError as error:
        raise AddressTaken("the API", settings.http, error.strerror or str(error)) from None
    return f"{host}:{runner.addresses[0][1]}"


async def _serve_ingest(settings: Settings, service: IngestService, cleanup: AsyncExitStack) -> str:
    limits = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _MESSAGE_BYTES)]
    server = grpc.aio.server(options=limits)
    add_IngestServicer_to_server(service, server)
    host, _ = loopback_address(settings.ingest, "ingest")
    try:
        port = server.add_insecure_port(settings.ingest)
    except RuntimeError as error:
        raise AddressTaken("ingest", settings.ingest, str(error)) from None
    await server.start()
    cleanup.push_async_callback(server.stop, 1.0)
    return f"{host}:{port}"
