"""Changes of the in-sync set that the controller has refused, and the appends that wait for them."""

from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode
from tests.broker.replicas.leader_rig import Bench


def test_an_append_waits_no_longer_for_a_member_that_was_refused(tmp_path):
    """By the answer to the last copy, or, if there were several, by the present set, which Kafka's controllers grant as it is."""
    for copies in (1, 2):
        it = Bench(str(tmp_path / str(copies)), in_sync=(1,), replicas=(1, 2))
        it.asking.allowed.add((2, 7))
        it.leader.follower_fetched(2, 0, log_start_offset=0, broker_epoch=7)
        change = it.leader.state.pending
        if copies > 1:
            it.leader.state.ask_again()
        it.append("a", build_batch([Record(0, 1_700_000_000_000, None, b"v")]))
        it.disk.write()
        it.disk.flush()
        it.leader.in_sync_passed_over(change)
        assert it.ended == {}
        it.leader.in_sync_refused(change, ErrorCode.INELIGIBLE_REPLICA)
        assert list(it.ended) == (["a"] if copies == 1 else [])
        if copies > 1:
            assert it.asking.asked == [(1, 2), (1,)]
            it.leader.in_sync_passed_over(it.leader.state.retraction)
        assert list(it.ended) == ["a"]
