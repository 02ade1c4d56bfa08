"""A line in which a program says something."""

import pytest

from scope_agentd.annotations.annotation import Said, read_line
from scope_agentd.errors import AnnotationRefused


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"step 1200\n", Said("step 1200")),
        ("训练开始\n".encode(), Said("训练开始")),
        (b'{"text": "step 1200", "labels": {"epoch": 3, "run": "a"}}', Said("step 1200", {"epoch": "3", "run": "a"})),
    ],
)
def test_a_line_is_a_text_or_an_object(line: bytes, said: Said) -> None:
    """A line that begins with a brace is JSON; numbers become texts."""
    assert read_line(line) == said


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\n", "text: must be 1 to 500 characters"),
        (b"x" * 501, "text: must be 1 to 500 characters"),
        (b"a\0b", "without NUL"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"text": "a"', "begins like JSON"),
        (b'{"text": "a", "tags": 1}', "unknown field 'tags'"),
        (b'{"text": "a", "labels": []}', "labels: must be an object"),
        (b'{"text": "\\ud800"}', "without NUL"),
        (b'{"text": "a", "labels": {"' + b"x" * 64 + b'": 1}}', "at most 63 characters"),
    ],
)
def test_what_is_refused(line: bytes, reason: str) -> None:
    """The error says what is wrong."""
    with pytest.raises(AnnotationRefused, match=reason):
        read_line(line)
