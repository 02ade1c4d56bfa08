"""How a daemon declares its settings: one field of a dataclass for each.

    spool_bytes: Annotated[int, Setting("disk space for records ...", unit="bytes", check=at_least(1))] = 1 << 30

The command line's flags, the environment variables, the keys of the configuration file and the documented sample file
are made from the fields; see `scope_cli.configuration`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from scope_wire.errors import InvalidSetting

Check = Callable[[Any, str], object]


@dataclass(frozen=True)
class Setting:
    """What a field's name, type and default cannot say.

    Attributes:
        meaning: for documentation: no capital letter at its beginning, no full stop at its end.
        unit: of a number, such as `bytes` or `s`; of a text, its form, such as `HOST:PORT`.
        unset: what is done if the setting has no value; only if its default is None.
        within_state: the default is the file of this name in the state directory; only if the field has no default.
        example: a value, for documentation; only if the field has no default, or None.
        check: called with a value and the name that errors shall call it; raises a ValueError whose message begins with
            the name and ends with the remedy.
        public: the value as others may see it, without a secret.
    """

    meaning: str
    unit: str = ""
    unset: str = ""
    within_state: str = ""
    example: Any = None
    check: Check | None = None
    public: Callable[[Any], Any] = lambda value: value


def at_least(least: int, shown: str = "") -> Check:
    """A check for numbers that may not be smaller; `shown` is how people write the least one.

    Raises:
        InvalidSetting: (the check) the value is smaller.
    """

    def check(value: float, name: str) -> None:
        if value < least:
            raise InvalidSetting(f"{name}: {value} is too small; give {shown or least} or more")

    return check


def above_zero(value: float, name: str) -> None:
    """A check for numbers.

    Raises:
        InvalidSetting: the value is 0 or negative.
    """
    if value <= 0:
        raise InvalidSetting(f"{name}: {value} is not above 0")


def one_of(*allowed: str) -> Check:
    """A check for texts of which there are a few.

    Raises:
        InvalidSetting: (the check) the value is another.
    """

    def check(value: str, name: str) -> None:
        if value not in allowed:
            raise InvalidSetting(f"{name}: '{value}' is none of {', '.join(allowed)}")

    return check


def declared(settings: type) -> dict[str, tuple[Any, Setting]]:
    """The type and the declaration of each setting, in order."""
    hints = get_type_hints(settings, include_extras=True)
    return {field.name: (hints[field.name].__origin__, hints[field.name].__metadata__[0]) for field in fields(settings)}


def check_all(settings: Any) -> None:
    """Checks every setting that has a value.

    Raises:
        ValueError: the error of the first check that failed.
    """
    for name, (_, setting) in declared(type(settings)).items():
        value = getattr(settings, name)
        if setting.check and value is not None:
            setting.check(value, name)
