"""`scope admin client-cert | certificates | fingerprint`: who may call agents, and whom to trust."""

import argparse
import base64
from datetime import datetime
from pathlib import Path
from typing import Any

from scope_cli.errors import CommandError, UsageError
from scope_cli.printable import print_json, print_line


def register(topics: Any) -> None:
    """Adds the topics to those of `scope admin`."""
    person = topics.add_parser(
        "client-cert",
        help="make a certificate for a person, who calls agents",
        description="Writes a new private key, its certificate and the authority's into FILE: what grpcurl takes for "
        "-key, -cert and -cacert.",
    )
    person.add_argument("name", metavar="NAME", help="the person's name, which agents note")
    person.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE",
        help="is made with mode 0600; must not exist; default: NAME.pem, in the current directory",
    )
    person.add_argument("--role", default="viewer", metavar="ROLE", help="viewer (default), operator or admin")
    person.set_defaults(run=_make_client)
    listed = topics.add_parser("certificates", help="list the certificates that have not expired")
    listed.add_argument("--json", action="store_true", help="as JSON")
    listed.set_defaults(run=_list)
    fingerprint = topics.add_parser("fingerprint", help="print the authority's fingerprint, which `scope login` shows")
    fingerprint.set_defaults(run=_fingerprint)


def _make_client(arguments: argparse.Namespace) -> None:
    from cryptography import x509

    from scope_cli.client import Client
    from scope_wire.keys import Credentials, make_key, signing_request

    file = arguments.file or Path(f"{arguments.name}.pem")
    if file.exists():
        raise UsageError(f"{file} exists; name a file that does not")
    key = make_key()
    asked = base64.b64encode(signing_request(key)).decode()
    answer = Client().sign_certificate({"name": arguments.name, "role": arguments.role, "signing_request": asked})
    signed = x509.load_pem_x509_certificate(answer["certificate"].encode())
    authorities = tuple(x509.load_pem_x509_certificates(answer["authority"].encode()))
    try:
        Credentials(key, signed, authorities).write(file)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from None
    until = f"{signed.not_valid_after_utc:%Y-%m-%d}"
    print_line(f"wrote {file}: key, certificate and authority; valid until {until}")


def _list(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_cli.terminal import RowTable, console

    rows = Client().get_certificates()["certificates"]
    if arguments.json:
        print_json(rows)
        return
    table = RowTable("kind", "name", "role", "hostname", "expires", "revoked", "serial")
    for row in rows:
        dates = [day and f"{datetime.fromisoformat(day):%Y-%m-%d}" for day in (row["expires"], row["revoked"] or "")]
        texts = [row["kind"], row["name"], row["role"] or "", row["hostname"] or ""]
        table.add_row(*texts, *dates, row["serial"])
    console().print(table)


def _fingerprint(_: argparse.Namespace) -> None:
    from scope_cli.client import Client
    from scope_wire.identity import read_certificate
    from scope_wire.join_token import fingerprint_of

    print_line(fingerprint_of(read_certificate(Client().get_authority()["authority"].encode())))
