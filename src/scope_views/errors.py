"""Errors of views."""


class ViewError(Exception):
    """Base class: what was asked for cannot be shown."""


class NothingToShow(ViewError):
    """A stream does not have what a view is made of, such as stacks."""


class InvalidView(ViewError):
    """A stream's description says to show columns that it lacks, or rows by a filter that is not valid."""
