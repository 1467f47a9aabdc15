"""Names of read-only views: ``orders@before-upgrade`` is a topic as it was at a cut, ``orders@2026-11-01T00:00Z`` at a time.

No topic of Kafka has an ``@`` in its name. Some clients refuse it before they send a request; for them ``..at..`` stands
for it, and times are written without colons: ``orders..at..2026-11-01T0000Z``. A topic that really has such a name is
the topic.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from stratalog.tier.bucket.cuts import CUT_NAME
from stratalog.wire.topic import VIEW_ALIAS, VIEW_MARK

__all__ = ["ViewName", "parse_view_name"]

_TIME: Final = re.compile(
    r"(\d{4}-?\d{2}-?\d{2})(?:[T ](\d{2}):?(\d{2})(?::?(\d{2}(?:\.\d{1,6})?))?(Z|[+-]\d{2}:?\d{2})?)?"
)
_MILLISECONDS: Final = re.compile(r"\d{9,16}")


class ViewName(NamedTuple):
    """A topic, and the cut or the time at which it is looked at; one of the two is None."""

    topic: str
    cut: str | None
    timestamp_ms: int | None


def parse_view_name(name: str) -> ViewName | None:
    """Parse the name of a view; None if the name is that of no view."""
    mark = VIEW_MARK if VIEW_MARK in name else VIEW_ALIAS
    topic, found, moment = name.partition(mark)
    if not found or not topic or not moment:
        return None
    if CUT_NAME.fullmatch(moment):
        return ViewName(topic, moment, None)
    timestamp_ms = _time_ms(moment)
    return None if timestamp_ms is None else ViewName(topic, None, timestamp_ms)


def _time_ms(text: str) -> int | None:
    """Milliseconds since 1970, of a number of them (9 digits at least) or ISO 8601; without a zone it is UTC."""
    match = _TIME.fullmatch(text)
    if match is None:
        return int(text) if _MILLISECONDS.fullmatch(text) else None
    day, hour, minute, second, zone = match.groups()
    whole = f"{day.replace('-', '')}T{hour or '00'}{minute or '00'}{second or '00'}{(zone or 'Z').replace(':', '')}"
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return None
    return int(moment.replace(microsecond=0).astimezone(UTC).timestamp()) * 1000 + moment.microsecond // 1000
