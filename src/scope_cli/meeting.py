"""Meets a server for the first time: whether its certificate is to be trusted, as ssh asks it, and who logs in."""

import getpass
import hmac
import json
import ssl
import sys
from dataclasses import replace
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import OpenerDirector

from scope_cli.access import Access
from scope_cli.api import Credentials
from scope_cli.client import Client
from scope_cli.devices import device_at, keep_device
from scope_cli.errors import CommandError, ServerUnreachable, UsageError
from scope_cli.https import careless_opener, opener
from scope_cli.printable import print_remark
from scope_wire.errors import InvalidCertificate

_ANSWER_S = 15.0
_LARGEST = 1 << 16  # bytes, of certificates


def met(url: str, fingerprint: str | None, email: str | None) -> Access:
    """Logs in to a server.

    Args:
        fingerprint: of the authority, as `scope admin fingerprint` prints it; None: asked on the terminal.
        email: of the account; None: asked on the terminal. The password is asked there, or read from standard input.

    Raises:
        UsageError: the URL is not one of HTTPS, or something is missing and there is no terminal to ask on.
        CommandError: the server, its certificate, or email and password are not accepted.
    """
    url = _checked(url)
    authority = None if fingerprint is None and _is_trusted(url) else _trusted(url, fingerprint)
    email, password = _credentials(email)
    access = Access(url, authority=authority)
    credentials: Credentials = {"email": email, "password": password}
    if device := device_at(url, email):  # a server that gave none takes none
        credentials["device"] = device
    tokens = Client(access, _ANSWER_S).login(credentials)
    if given := tokens.get("device"):
        keep_device(url, email, given)
    return replace(access, token=tokens["access_token"], refresh_token=tokens["refresh_token"])


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme == "https" and parts.hostname and parts.path in ("", "/") and not parts.query
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(f"{url!r} is not https://HOST:PORT; on its own machine, a server needs no login")
    return url.rstrip("/")


def _is_trusted(url: str) -> bool:
    """Whether this machine trusts the certificate that the server shows."""
    try:
        _authority_of(url, opener(None))
    except ssl.SSLCertVerificationError:
        return False
    return True


def _trusted(url: str, fingerprint: str | None) -> str:
    """The authority's certificate, in PEM, once it is known to be the right one."""
    from scope_wire.identity import read_certificate
    from scope_wire.join_token import fingerprint_of

    pem = _authority_of(url, careless_opener())
    try:
        found = fingerprint_of(read_certificate(pem.encode()))
    except InvalidCertificate:
        raise CommandError(f"{url} answers with no certificate; is it a SCOPE server?") from None
    if fingerprint is not None:
        if not hmac.compare_digest(found.encode(), fingerprint.encode()):
            raise CommandError(f"the authority of {url} has the fingerprint {found}, not {fingerprint}")
        return pem
    if not sys.stdin.isatty():
        raise UsageError(f"the authority of {url} has the fingerprint {found}; give it as --fingerprint if it is right")
    print_remark(f"the authority of {url} has the fingerprint {found}")
    print_remark("`scope admin fingerprint` on the server prints the right one; type yes if it is the same:")
    if sys.stdin.readline().strip().lower() != "yes":
        raise CommandError("not logged in")
    return pem


def _authority_of(url: str, using: OpenerDirector) -> str:
    try:
        with using.open(f"{url}/api/v1/authority", timeout=_ANSWER_S) as answer:
            content: Any = json.loads(answer.read(_LARGEST))
            return str(content["authority"])
    except URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise error.reason from None
        if isinstance(error, HTTPError):
            error.close()
        raise ServerUnreachable(f"no server answers at {url} ({error.reason})") from None
    except (OSError, HTTPException, ValueError, TypeError, KeyError) as error:
        raise ServerUnreachable(f"no SCOPE server answers at {url} ({error})") from None


def _credentials(email: str | None) -> tuple[str, str]:
    if sys.stdin.isatty():
        email = email or input("Email: ").strip()
        return email, getpass.getpass("Password: ")
    password = sys.stdin.readline().rstrip("\n")
    if not email or not password:
        raise UsageError("there is no terminal to ask on: give --email, and the password on standard input")
    return email, password
