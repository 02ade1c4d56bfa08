"""What is noted of a call in the audit log: before the act, so that none is done without an entry."""

from collections.abc import Mapping

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from scope_server.accounts.audit import Act
from scope_server.api.routing.call import Call
from scope_server.api.routing.route import Route

_NAMES = ("email", "name", "probe")  # fields of a body that say what the act is done to, where the path does not


def act_of(route: Route, call: Call, given: Mapping[str, BaseModel]) -> Act:
    """The entry of a call. Secrets (pydantic's SecretStr) are shown as asterisks."""
    path = given["path"].model_dump(mode="json")
    body = given["body"].model_dump(exclude_unset=True) if "body" in given else {}
    body = to_jsonable_python(body, bytes_mode="base64")
    named = [str(body[name]) for name in _NAMES if body.get(name)]
    done_to = " ".join(map(str, path.values())) or " ".join(named[:1])
    return Act(call.person.name or (named[:1] or [""])[0], call.address, route.audited, done_to, body)


def refused(act: Act, error: Exception) -> Act:
    """The entry after it, if the act was not done."""
    return Act(act.actor, act.address, f"{act.act}.refused", act.object, {"reason": str(error)})
