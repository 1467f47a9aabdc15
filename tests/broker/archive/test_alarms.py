"""The alarms of an archive that goes on no more, and the events that make a comparison necessary."""

from types import SimpleNamespace

import pytest

from stratalog.broker.archive.alarms import doubt_of, tell
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages import commands
from stratalog.tier.planning.plan_events import ReportGap, ReportLost, ReportQuarantine, StandDown

PARTITION = PartitionId("t", bytes(16), 0)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (StandDown("newer"), "archiving stops here: newer"),
        (ReportLost("gone"), "its archive is lost, it is looked for again and again: gone"),
        (ReportQuarantine(3, 9, "bad"), "offsets [3, 9) stay local: bad"),
        (ReportGap(3, 9), "ends at offset 3, the local log begins at 9"),
    ],
)
def test_each_is_one_line_that_names_the_partition(caplog, action, words):
    """With the reason or the offsets."""
    tell(PARTITION, action)
    (record,) = caplog.records
    assert "t-0" in record.getMessage()
    assert words in record.getMessage()


def test_only_what_the_directory_does_not_know_is_a_doubt():
    """A claim of another timeline is certain, a longer archive is to be looked at, a deleted one is neither."""

    def claimed(end, *, deleted=False):
        return commands.ManifestRead(SimpleNamespace(remote_end=end, deleted=deleted))

    assert doubt_of(PARTITION, commands.SecondTimelineReport("other", 4), 10) == ("other", True)
    assert doubt_of(PARTITION, claimed(11), 10)[1] is False
    for answer in (claimed(10), claimed(11, deleted=True), commands.FailedReport("down", retriable=True)):
        assert doubt_of(PARTITION, answer, 10) is None
