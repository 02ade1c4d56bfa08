"""Runs all parts: starts them in order, supervises them, and stops them in reverse order."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from scope_cli.access import Access
from scope_cli.client import Client
from scope_cli.errors import CommandError, Interrupted, ServerUnreachable
from scope_cli.flag import Flag
from scope_cli.installation import ADDRESSES, JOIN_TOKEN, api_socket, authority_dir, postgres_dir, url_of
from scope_cli.stack.child import Child
from scope_cli.stack.database import Database
from scope_cli.stack.left_behind import end_left_behind, mark
from scope_cli.stack.place import owned
from scope_cli.stack.ports import checked, require_free
from scope_cli.stack.supervisor import Part, Supervisor

ANSWER_S = 5.0  # the server tries its database for 3 s before it reports an error
LONG_S = 30.0


class Stack:
    """Starts all parts on entry and stops them on exit; meanwhile, parts that end are started again.

    Args:
        state: the state directory.
        say: called with progress messages, from any thread.
        addresses: addresses that differ from the defaults, by their names in ADDRESSES.
        server: more arguments of `scope server`.
        agent: more arguments of `scope agentd`.
        keep_bytes: the limit of stored data, if the server's arguments give one.
        stop: set to end during the start.
        hurry: set to make the end quick.

    Raises:
        CommandError: a part refuses to start; the message says which and why.
        Interrupted: `stop` was set before all parts had started.
    """

    def __init__(
        self,
        state: Path,
        say: Callable[[str], None],
        addresses: dict[str, str] | None = None,
        *,
        server: Sequence[str] = (),
        agent: Sequence[str] = (),
        keep_bytes: int | None = None,
        stop: Flag | None = None,
        hurry: Flag | None = None,
    ) -> None:
        self._state, self._say = state, say
        self._addresses = {**ADDRESSES, **(addresses or {})}
        self._server, self._agent, self._keep_bytes = server, agent, keep_bytes
        self._stop, self._hurry = stop or Flag(), hurry or Flag()
        self._cleanup = ExitStack()
        self._supervisors: list[Supervisor] = []
        self.url = url_of(checked(self._addresses)["http"])

    def __enter__(self) -> "Stack":
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def client(self, timeout_s: float = 30.0) -> Client:
        """The API of this stack."""
        return Client(Access(self.url, socket=str(api_socket(self._state))), timeout_s)

    @property
    def _authority(self) -> Path:
        from scope_server.identity.authority import CERTIFICATE_FILE

        return authority_dir(self._state) / CERTIFICATE_FILE

    @property
    def lines(self) -> list[str]:
        """A line about the state of each part."""
        return [supervisor.line for supervisor in self._supervisors]

    def _start(self) -> None:
        from scope_server.store.postgres import PrivatePostgres

        self._cleanup.enter_context(owned(self._state))
        end_left_behind(self._state, self._say, self._stop)
        require_free(self._addresses, self._stop)
        postgres = PrivatePostgres(postgres_dir(self._state), keep_bytes=self._keep_bytes)
        self._run(Database(postgres), lambda supervisor: supervisor.running)
        arguments = ["--database", postgres.conninfo(), *self._given("http", "ingest", "enrol"), *self._server]
        self._run(self._child("server", arguments), lambda _: self._agents() is not None)
        arguments = ["--server", self._addresses["ingest"], *self._given("control", "metrics")]
        arguments += ["--exclude-pid", str(os.getpid()), *self._agent]
        self._run(self._agent_child(arguments), lambda _: bool(self._agents()))
        for supervisor in self._supervisors:
            supervisor.settle()

    def _given(self, *names: str) -> list[str]:
        return [word for name in names for word in (f"--{name}", self._addresses[name])]

    def _child(self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
        log = self._state / f"{name}.log"
        variables = {**mark(self._state), **(environment or {})}
        return Child.of_scope(name, ["--state-dir", str(self._state), *arguments], log, variables)

    def _agent_child(self, arguments: Sequence[str]) -> Child:
        """The agent, which joins the server if it is not a member of it, with a token like any other machine's."""
        from cryptography import x509

        from scope_agentd.identity.membership import is_valid
        from scope_wire.join_token import digest_of

        authority = x509.load_pem_x509_certificate(self._authority.read_bytes())
        if is_valid(self._state, digest_of(authority)):
            return self._child("agentd", arguments)
        while True:
            try:
                token = self.client(ANSWER_S).make_join_token({})["token"]
                return self._child("agentd", ["--join", self._addresses["enrol"], *arguments], {JOIN_TOKEN: token})
            except ServerUnreachable:  # its database is not ready yet
                self._check()
                if self._stop.wait(0.1):
                    raise Interrupted from None

    def _run(self, part: Part, usable: Callable[[Supervisor], bool]) -> None:
        """Starts supervising a part, and waits until it is ready for the first time."""
        self._say(f"starting {part.name}")
        supervisor = Supervisor(part, self._say, self._hurry)
        supervisor.start()
        self._cleanup.callback(supervisor.stop)
        self._supervisors.append(supervisor)
        told_at = time.monotonic() + LONG_S
        while not usable(supervisor):
            self._check()
            if time.monotonic() > told_at:
                self._say(f"waiting for {part.name}; see its log in {self._state}")
                told_at = float("inf")
            if self._stop.wait(0.05):
                raise Interrupted
        self._check()

    def _check(self) -> None:
        if self._stop.is_set():
            raise Interrupted
        for supervisor in self._supervisors:
            if supervisor.refusal is not None:
                raise CommandError(f"{supervisor.name} did not start: {supervisor.refusal.said or 'no message'}")

    def _agents(self) -> int | None:
        """Number of connected agents; None while the server does not answer."""
        try:
            return self.client(ANSWER_S).get_server()["agents"]
        except (CommandError, KeyError, TypeError):
            return None
