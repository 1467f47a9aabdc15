"""The words of the machine of fetches."""

from typing import get_args

from stratalog.broker.replication import fetching_events


def test_every_word_is_an_event_or_an_action():
    """The driver carries out each action; the machine takes each event."""
    words = {one for one in fetching_events.__all__ if one not in {"Event", "Action"}}
    assert words == {one.__name__ for one in (*get_args(fetching_events.Event), *get_args(fetching_events.Action))}
