"""The parts of a quorum can be handed to it in one piece."""

from msgspec.structs import fields

from stratalog.broker.quorum.quorum_parts import QuorumParts


def test_each_part_has_a_name():
    """A test of the quorum puts its own in the place of any of them."""
    assert {field.name for field in fields(QuorumParts)} == {
        *("identity", "timeouts", "replica", "publisher", "snapshotting", "peers", "clock", "dice"),
        *("view", "look", "in_slices", "state", "on_failed"),
    }
