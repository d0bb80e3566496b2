"""What the source refuses, and what went wrong; each text is one line and holds neither bodies nor secrets."""

from __future__ import annotations


class SourceError(Exception):
    """The source cannot do what was asked."""


class OptionRefused(SourceError):
    """An option is unknown, has a value it does not take, or does not go with another."""


class ColumnRefused(SourceError):
    """A column is unknown, missing, or of a type that a message has no place for."""


class RowNotSent(SourceError):
    """A row was not accepted; the task fails, and Spark runs it again with the same message ids."""


class ReadFailed(SourceError):
    """A queue could not be peeked."""


class DataLost(SourceError):
    """Messages that a stream had counted are gone before it read them."""
