"""The errors of scope_catalogue. All are subclasses of `CatalogueError`. A message says what to do."""


class CatalogueError(Exception):
    """Root of this package's errors."""


class CatalogueMissing(CatalogueError):
    """The build did not write the catalogue."""


class UnknownProbe(CatalogueError, LookupError):
    """No probe in the catalogue has this name."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


class InvalidDescription(CatalogueError, ValueError):
    """A description of a stream is not valid; the message names the part."""


class InvalidOption(CatalogueError, ValueError):
    """The probe has no such option, or the option does not allow the value."""


class InvalidFilter(CatalogueError, ValueError):
    """A filter has a syntax error, or does not suit the columns of the stream; the message says where and why.

    Attributes:
        place: index of the character at which reading ended.
    """

    def __init__(self, message: str, place: int = 0) -> None:
        super().__init__(message)
        self.place = place


class InvalidTarget(CatalogueError, ValueError):
    """A field of a target has a value that can match nothing, such as pid 0."""
