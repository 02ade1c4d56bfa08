"""Options of probes: typed, documented, and checked before a probe starts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from scope_catalogue.errors import InvalidOption
from scope_catalogue.nearest import meant, unknown


@dataclass(frozen=True)
class Option:
    """An option of a probe; `type` says how a value from JSON or from the command line is read.

    Attributes:
        type: integer, boolean, choice, names (a list of at least one word; as text, separated by commas) or texts (a
            list of at least one text; as text, a single one).
        choices: the values allowed; for names, the words allowed (empty: any) and patterns of them, such as `open*`.
        classes: words for names with choices; each stands for those of its names that are choices.
        minimum, maximum: bounds of an integer, both included.
        for_lines: the default of a trace that prints rows as lines; empty: `default`.
        makes: columns that are absent with the default, each with the first of the choices that makes it.
        check: for texts, and for names: raises InvalidOption if they are not what the probe understands.
        example: for an option that must be given: a value as people would write it.
        trial: with `example`: a value that harms nobody, to try the probe out; empty: the example.
        positional: for texts: the command line takes them as words after the probe's name, too.
        column: the column whose values the option selects: only rows with one of the names are recorded.
    """

    name: str
    type: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    column: str = ""
    for_lines: str = ""
    makes: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    check: Callable[[tuple[str, ...]], object] | None = field(default=None, metadata={"data": False})
    example: str = ""
    trial: str = ""
    positional: bool = False

    def parse(self, value: Any) -> Any:
        """The value, checked and converted for the probe.

        Raises:
            InvalidOption: the value is not allowed; the message says which values are.
        """
        reader = {
            "integer": self._integer,
            "boolean": self._boolean,
            "choice": self._choice,
            "names": self._names,
            "texts": self._texts,
        }
        return reader[self.type](value)

    def _integer(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise self._complaint(value, "a whole number")
        try:
            number = int(value)
        except (ValueError, OverflowError):
            raise self._complaint(value, "a whole number") from None
        if isinstance(value, float) and number != value:
            raise self._complaint(value, "a whole number")
        if (self.minimum is not None and number < self.minimum) or (self.maximum is not None and number > self.maximum):
            raise self._complaint(value, f"from {self.minimum} to {self.maximum}")
        return number

    def _boolean(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        words = {"true": True, "false": False}
        if not isinstance(value, str) or value not in words:
            raise self._complaint(value, "true or false")
        return words[value]

    def _choice(self, value: Any) -> str:
        if value not in self.choices:
            raise self._complaint(value, f"one of {', '.join(self.choices)}{meant(str(value), self.choices)}")
        return str(value)

    def _names(self, value: Any) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise self._complaint(value, "names separated by commas")
        named = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
        if not named:
            raise InvalidOption(f"option '{self.name}': {value!r} names nothing; leave the option out for its default")
        if self.choices:
            self.chosen(named)
        if self.check:
            self.check(named)
        return named

    def _texts(self, value: Any) -> tuple[str, ...]:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) and text.strip() for text in texts):
            raise self._complaint(value, "a list of texts")
        if not texts:
            raise InvalidOption(f"option '{self.name}': the list is empty; leave the option out for its default")
        given = tuple(dict.fromkeys(texts))
        if self.check:
            self.check(given)
        return given

    def chosen(self, words: Sequence[str]) -> tuple[str, ...]:
        """The choices that words of an option for names stand for.

        They depend on this host's choices, so values keep the words: another host may have other choices.

        Raises:
            InvalidOption: a word stands for none.
        """
        return tuple(dict.fromkeys(name for word in words for name in self._meant(word)))

    def _meant(self, word: str) -> Sequence[str]:
        own = self.classes.get(word)
        found = [name for name in self.choices if (name in own if own else fnmatchcase(name, word))]
        if not found:
            near = meant(word.strip("*?"), (*self.choices, *self.classes))
            raise InvalidOption(f"option '{self.name}': there is no {word!r}{near}")
        return found

    def _complaint(self, value: Any, wanted: str) -> InvalidOption:
        return InvalidOption(f"option '{self.name}': {value!r} is not {wanted}")


MODE = Option(
    "mode",
    "choice",
    "events",
    "events: a row for each event; summary: counts and histograms per interval, kept in the kernel, never lossy",
    choices=("events", "summary"),
)
SUMMARY_INTERVAL_MS = Option(
    "interval_ms", "integer", 1000, "time between two reads of a summary, in ms", minimum=100, maximum=3_600_000
)
SAMPLE_INTERVAL_MS = Option(
    "interval_ms", "integer", 1000, "time between two samples, in ms", minimum=100, maximum=3_600_000
)
RING_BYTES = Option(
    "ring_bytes",
    "integer",
    0,
    "size of each ring between kernel and user space, rounded up to a power of two; 0: chosen by probe and mode",
    minimum=0,
    maximum=1 << 30,
)


def parse_options(options: Sequence[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all options, with defaults for those not given.

    Raises:
        InvalidOption: an option is unknown or missing, or its value is not allowed.
    """
    known = {option.name: option for option in options}
    for name in given:
        if name not in known:
            raise InvalidOption(unknown("option named", name, known))
    for name, option in known.items():
        if option.example and name not in given:
            raise InvalidOption(f"option '{name}' is missing: {option.meaning}. Example: '{option.example}'")
    return {name: option.parse(given[name]) if name in given else option.default for name, option in known.items()}


def trial(options: Sequence[Option]) -> dict[str, Any]:
    """A value for each option that must be given, to try a probe out."""
    return {option.name: option.trial or option.example for option in options if option.example}
