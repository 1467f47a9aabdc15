"""Contexts for handlers whose answers are made in slices: here at once, and as lists of rows."""

from stratalog.broker.requests.dispatch import PENDING
from stratalog.broker.runtime.slices import to_the_end


class PlainRows:
    """Takes rows as `AnswerRows` does, and keeps them as they are."""

    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)
        yield

    def close(self):
        return self.rows


def pauses(steps):
    """How often a work pauses that waits for no other, and its answer."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


class AtOnce:
    """The part of a context that sliced answers need, for classes that have ``respond``."""

    def sliced(self, steps):
        self.respond(to_the_end(steps))
        return PENDING

    def rows(self, _name):
        return PlainRows()
