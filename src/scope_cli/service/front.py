"""nginx in front of this machine's server and others, on Debian: what it adds to the configuration that is there."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from scope_cli.configuration.daemons import SERVER
from scope_cli.errors import CommandError
from scope_cli.service.files import Service
from scope_wire.endpoint import Endpoint

# Where people and machines reach nginx. The server beside it listens elsewhere.
_PEOPLE, _INGEST, _ENROL = 443, 8471, 8474
_OWN = {"8470": 9470, "8471": 9471, "8474": 9474}
_SERVERS = re.compile(r"(?m)^( *)server server1:(\d+)(.*)\n *server server2:.*$")
_FOLDER = Path("/etc/nginx")


@dataclass(frozen=True)
class Front:
    """nginx on the machine of a server.

    Attributes:
        root: the directory below which the files lie.
        name: at which people and machines reach nginx.
        others: machines with more servers.
    """

    root: Path
    name: str = ""
    others: tuple[str, ...] = ()

    def settings(self, chosen: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings of the server: it listens beside nginx, tells machines of nginx, and believes its word.

        Args:
            chosen: those that are given.
        """
        http, ingest, enrol = (f"0.0.0.0:{port}" for port in _OWN.values())
        return {
            "http": http,
            "ingest": ingest,
            "enrol": enrol,
            "advertise": (self.name, *chosen.get("advertise", ())),
            "advertise_ports": (_INGEST, _ENROL),
            "proxies": ("127.0.0.1", *chosen.get("proxies", ())),
        }

    def check(self) -> None:
        """Whether nginx is there.

        Raises:
            CommandError: it is not, or cannot pass connections through.
        """
        if not any(self._at("modules-enabled").glob("*stream*.conf")):
            raise CommandError(
                f"{self._at('')} has no nginx that passes TLS through; install nginx-light and libnginx-mod-stream"
            )

    def files(self) -> Iterator[tuple[Path, str]]:
        """The files with their contents."""
        for name in ("agents.conf", "people.conf"):
            yield (
                self._at(f"scope/{name}"),
                self._adapted((resources.files("scope_cli.service") / "nginx" / name).read_text()),
            )

    def links(self) -> dict[Path, str]:
        """Links to the files, from where Debian's nginx looks, and their targets."""
        return {
            self._at("modules-enabled/90-scope-agents.conf"): "../scope/agents.conf",
            self._at("sites-enabled/scope"): "../scope/people.conf",
        }

    @property
    def certificate(self) -> Path:
        """The certificate that people see; its key lies beside it."""
        return self._at("scope/tls/certificate.pem")

    def _adapted(self, text: str) -> str:
        text = _SERVERS.sub(self._listed, text)
        for theirs, ours in (
            ("listen 8443 ", f"listen {_PEOPLE} "),
            ("/dev/stdout agents", "/var/log/nginx/scope-agents.log agents"),
            ("/etc/nginx/tls/", f"{_FOLDER}/scope/tls/"),
            ("/etc/nginx/authority/certificate.pem", f"{Service(SERVER).state}/authority/certificate.pem"),
            (
                "# Replace server1 and server2, unless these names can be resolved, as in deploy/docker.",
                "# Written by `scope install server --nginx`, removed by `scope uninstall server`.",
            ),
        ):
            text = text.replace(theirs, ours)
        return text

    def _listed(self, found: "re.Match[str]") -> str:
        indent, port, options = found.groups()
        places = [f"127.0.0.1:{_OWN[port]}", *(str(Endpoint(other, int(port))) for other in self.others)]
        return "\n".join(f"{indent}server {place}{options}" for place in places)

    def _at(self, path: str) -> Path:
        return self.root / _FOLDER.relative_to("/") / path
