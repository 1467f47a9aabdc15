"""Events and actions of the coordinators."""

from stratalog.metadata.coordination import CoordinatorRecord, Now, Producer, Reply, Write


def test_a_write_has_no_transaction_and_no_answer_by_default():
    """The usual write of a group is its records alone."""
    write = Write([CoordinatorRecord(b"key", None)])
    assert (write.producer, list(write.replies), list(write.on_committed)) == (None, [], [])


def test_a_reply_leaves_at_once_unless_it_tells_of_uncommitted_state():
    """Heartbeats are not held back by commits of others."""
    assert not Reply("token", response=None).durable


def test_times_and_producers_compare_by_value():
    """They are plain tuples, so models and tests may compare them."""
    assert Now(1, 2) == (1, 2)
    assert Producer(7, 0) != Producer(7, 1)
