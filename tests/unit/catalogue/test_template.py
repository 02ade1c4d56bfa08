"""The templates that come with SCOPE."""

import pytest

from scope_catalogue.catalogue import probe_named
from scope_catalogue.options import parse_options
from scope_catalogue.template import TEMPLATES, Template


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: one.name)
def test_its_parts_are_valid(template: Template) -> None:
    """Each part is a probe of the catalogue, with options that it allows; no probe is in it twice."""
    for part in template.parts:
        parse_options(probe_named(part.probe).options, part.options)
    assert len({part.probe for part in template.parts}) == len(template.parts)
