"""Lines about requests that fail."""

import logging

from stratalog.broker.lifecycle.complaints import Complaints


def test_each_kind_of_failure_is_said_once_in_a_row(caplog):
    """Its repetitions are for those who look closely; after a success it is news again."""
    caplog.set_level(logging.DEBUG)
    complaints = Complaints(logging.getLogger("x"), "broker 1")
    for kind, text in (("a", "no answer"), ("a", "still none"), ("b", "refused"), ("a", "no answer")):
        complaints.add(kind, text)
    assert complaints.last == "no answer"
    complaints.end()
    assert complaints.last == ""
    complaints.add("a", "no answer")
    levels = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert [level for level, _ in levels] == ["WARNING", "DEBUG", "WARNING", "WARNING", "WARNING"]
    assert levels[1][1] == "broker 1: still none"
