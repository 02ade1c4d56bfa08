"""Objects that handlers share: typed keys of the application."""

from collections.abc import Mapping

from aiohttp import web

from scope_server.accounts.accounts import Accounts
from scope_server.api.openapi import Described
from scope_server.api.routing.latencies import Latencies
from scope_server.exports.exports import Exports
from scope_server.fleet import Fleet
from scope_server.identity.answer import Answers
from scope_server.identity.members import Members
from scope_server.identity.register import Register
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.writers import Writers
from scope_server.live.hub import Hub
from scope_server.session.desired import Desired
from scope_server.session.sessions import Sessions
from scope_server.store.annotations import Annotations
from scope_server.store.latest.reader import States
from scope_server.store.reading.columns import Columns
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import Reader
from scope_server.store.retention import Disk, Retention
from scope_server.store.schema.columns import StreamTable
from scope_server.store.upkeep.upkeep import Upkeep
from scope_server.store.writing.quarantine import Quarantine

DATABASE = web.AppKey("database", Database)
COLUMNS = web.AppKey("columns", Columns)
READER = web.AppKey("reader", Reader)
ANNOTATIONS = web.AppKey("annotations", Annotations)
HUB = web.AppKey("hub", Hub)
STATES = web.AppKey("states", States)
MEMBERS = web.AppKey("members", Members)
REGISTER = web.AppKey("register", Register)
ENROLMENTS = web.AppKey("enrolments", Answers)
SESSIONS = web.AppKey("sessions", Sessions)
DESIRED = web.AppKey("desired", Desired)
BACKLOG = web.AppKey("backlog", Backlog)
FLEET = web.AppKey("fleet", Fleet)
WRITERS = web.AppKey("writers", Writers)
QUARANTINE = web.AppKey("quarantine", Quarantine)
DISK = web.AppKey("disk", Disk)
RETENTION = web.AppKey("retention", Retention)
UPKEEP = web.AppKey("upkeep", Upkeep)
TABLES: web.AppKey[Mapping[str, StreamTable]] = web.AppKey("tables", Mapping[str, StreamTable])
EXPORTS = web.AppKey("exports", Exports)
ACCOUNTS = web.AppKey("accounts", Accounts)
LATENCIES = web.AppKey("latencies", Latencies)
DESCRIBED = web.AppKey("described", Described)
