"""Templates: several probes with options that are started as one."""

import json
from datetime import datetime
from typing import Annotated

from pydantic import Field

from scope_catalogue.nearest import unknown
from scope_catalogue.template import TEMPLATES
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE
from scope_server.api.resources.definition import Part, checked_options
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Body, Option, Parameters
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import InvalidQuery, UnknownThing

ROUTES = Routes()

MOST_TEMPLATES = 1000
MOST_PARTS = 16
_NAME = r"^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$"

TemplateName = Annotated[str, Field(pattern=_NAME, description="lower-case letters, digits, - and _; up to 63")]
Parts = Annotated[list[Part], Field(min_length=1, max_length=MOST_PARTS)]


class TemplatePart(Answer):
    """A probe of a template."""

    probe: str
    options: dict[str, Option] = Field(description="those that differ from their defaults")
    where: str | None = Field(None, description="a filter on the rows; null: all rows are recorded")


class Template(Answer):
    """Probes that answer a question together."""

    name: str
    meaning: str
    parts: list[TemplatePart]
    made_by: str | None = Field(description="null: it comes with SCOPE")
    made: datetime | None


class Templates(Answer):
    """Templates, by name."""

    templates: list[Template]


class NewTemplate(Body):
    """A template to keep."""

    name: TemplateName
    meaning: Annotated[str, Field(max_length=500)] = ""
    parts: Parts


class TemplatePath(Parameters):
    """Which template."""

    name: str


class Deleted(Answer):
    """The template is gone."""

    name: str


@ROUTES.get(f"{PREFIX}/templates", Role.VIEWER)
async def get_templates(call: Call) -> Templates:
    """Templates: those that come with SCOPE, and those that people have made."""
    return Templates(templates=await templates(call))


@ROUTES.post(f"{PREFIX}/templates", Role.OPERATOR, audited="template.keep", status=201)
async def keep_template(call: Call, body: NewTemplate) -> Template:
    """Keep a template. One that people have made under this name is replaced."""
    if any(body.name == one.name for one in TEMPLATES):
        raise InvalidQuery(f"name: the template '{body.name}' comes with SCOPE; take another name", pointer="/name")
    parts = [
        {"probe": part.probe, "options": checked_options(part, f"/parts/{number}"), "where": part.where}
        for number, part in enumerate(body.parts)
    ]
    row = {"name": body.name, "meaning": body.meaning, "parts": json.dumps(parts), "made_by": call.person.name}
    if not await call[DATABASE].run("keep_template", row | {"most": MOST_TEMPLATES}):
        raise InvalidQuery(f"there are {MOST_TEMPLATES} templates, as many as may be; delete some")
    return await template_named(call, body.name)


@ROUTES.post(f"{PREFIX}/templates/{{name}}/delete", Role.OPERATOR, audited="template.delete")
async def delete_template(call: Call, path: TemplatePath) -> Deleted:
    """Delete a template that people have made. Tasks that were started with it go on."""
    if not await call[DATABASE].run("drop_template", {"name": path.name}):
        found = await template_named(call, path.name, parameter="name")
        raise InvalidQuery(f"the template '{found.name}' comes with SCOPE, and stays", parameter="name")
    return Deleted(name=path.name)


async def templates(call: Call) -> list[Template]:
    """All templates.

    Raises:
        StoreUnavailable: the database cannot be reached.
    """
    own = [Template(**row) for row in await call[DATABASE].fetch("templates")]
    given = [
        Template(
            name=one.name,
            meaning=one.meaning,
            parts=[TemplatePart(probe=part.probe, options=dict(part.options), where=None) for part in one.parts],
            made_by=None,
            made=None,
        )
        for one in TEMPLATES
    ]
    return sorted([*given, *own], key=lambda one: one.name)


async def template_named(call: Call, name: str, *, parameter: str = "", pointer: str = "") -> Template:
    """A template by its name.

    Args:
        parameter, pointer: where the request names it.

    Raises:
        UnknownThing: there is none.
        StoreUnavailable: the database cannot be reached.
    """
    known = {one.name: one for one in await templates(call)}
    if name not in known:
        raise UnknownThing(unknown("template named", name, known), parameter=parameter, pointer=pointer)
    return known[name]
