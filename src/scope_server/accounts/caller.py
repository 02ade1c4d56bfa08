"""Who makes a request, and what that person may do."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a person may do: see; start and stop tasks; decide who may do what. Each includes those before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """Whether who has this role may do what the other may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class Caller:
    """Who makes a request.

    Attributes:
        name: the email of an account; of the machine's own user: `NAME (local)`.
        user: id of the account; empty if the caller has none.
        login: id of the login; empty for other ways to show who one is.
    """

    name: str
    role: Role
    user: str = ""
    login: str = ""
