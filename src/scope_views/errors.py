"""Errors of views."""


class ViewError(Exception):
    """Base class: what was asked for cannot be shown."""


class NothingToShow(ViewError):
    """None of the streams has what a view is made of, such as stacks."""
