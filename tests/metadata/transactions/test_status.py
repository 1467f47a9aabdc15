"""The table of states."""

from stratalog.metadata.transactions.status import PRECEDING, TransactionStatus


def test_numbers_and_names_are_kafkas():
    """They stand in records and answers."""
    assert [(status.value, status.title) for status in TransactionStatus] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


def test_a_decision_is_final():
    """From a decision only its own completion follows."""
    following = {
        status: {after for after, before in PRECEDING.items() if status in before} for status in TransactionStatus
    }
    assert following[TransactionStatus.PREPARE_COMMIT] == {TransactionStatus.COMPLETE_COMMIT}
    assert following[TransactionStatus.PREPARE_ABORT] == {TransactionStatus.COMPLETE_ABORT}
    assert following[TransactionStatus.DEAD] == set()


def test_only_what_has_begun_can_be_committed():
    """Only an open transaction commits; an abort may also be one of nothing (KIP-890)."""
    assert PRECEDING[TransactionStatus.PREPARE_COMMIT] == {TransactionStatus.ONGOING}
    assert {status for status in TransactionStatus if status.resting} < PRECEDING[TransactionStatus.PREPARE_ABORT]
    assert [status.title for status in TransactionStatus if status.ending] == ["PrepareCommit", "PrepareAbort"]
