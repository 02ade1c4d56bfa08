"""Where the time of a request went, as a sentence."""

from scope_views.why.request import Cause, Request, sentence

S = 1_000_000_000


def test_parts_and_causes() -> None:
    """The largest part first; causes with their pieces; small ones are left out."""
    parts = {"on_cpu": 3 * S, "gpu_wait": 6 * S, "blocked": S // 100, "unknown": S - S // 100}
    causes = (Cause("another request's prompt", 3, 2 * S), Cause("stopped by a signal", 1, 7))
    assert sentence(Request("This request", "llama-server", 10 * S, parts, causes)) == (
        "This request of llama-server took 10 s: 60% waiting for a GPU, 30% on a CPU, 10% not known. "
        "20% of it was in 3 pieces slowed by this: another request's prompt."
    )


def test_without_a_split() -> None:
    """The reason is said, and nothing is guessed."""
    said = sentence(Request("POST /api/chat", None, 2 * S, not_split="Its threads are not known."))
    assert said == "POST /api/chat took 2 s. Its threads are not known."


def test_hostile_texts() -> None:
    """Names are printed without effect."""
    assert "\x1b" not in sentence(Request("GET /\x1b[2J", "a\x1b[2J", S, {"on_cpu": S}))
