"""What every answer tells browsers: what its page may load and do, and who may show it."""

from aiohttp import web

AGE = "X-Scope-Age"  # how old the rows of an answer may be, in seconds: see `reads`

# The console loads only what this server sends. It may open ui.perfetto.dev and hand a trace to it: hence the opener
# policy.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def secure(answer: web.StreamResponse) -> None:
    """Adds the headers. What does not say otherwise is kept by no cache."""
    answer.headers.update(_HEADERS)
    answer.headers.setdefault("Cache-Control", "no-store")


async def on_prepare(_: web.Request, answer: web.StreamResponse) -> None:
    """Adds the headers to an answer of the application, just before it is sent."""
    secure(answer)
