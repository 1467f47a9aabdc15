"""When a reassignment is complete, and when it may be cancelled."""

import pytest

from stratalog.metadata.controller.reassignment import Assignment, cancelled, completed, reassigned, retargeted
from stratalog.metadata.image.topics_image import PartitionImage


def test_a_reassignment_begins_with_the_old_and_the_new_replicas():
    """The target comes first, in its order; what goes stands behind it."""
    assert reassigned((1, 2, 3), (4, 3)) == Assignment((4, 3, 1, 2), (4,), (1, 2))
    assert not reassigned((1, 2), (2, 1)).is_reassigning


@pytest.mark.parametrize(
    ("target", "adding", "removing"),
    [((3,), (3,), (1, 2)), ((2,), (2,), (1,)), ((2, 3), (2, 3), (1,)), ((1,), (), (2,)), ((1, 2), (2,), ())],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_move_in_the_midst_of_another_goes_on_with_what_is_wanted_still(target, adding, removing, is_whole):
    """From {1} to {2}, and then elsewhere: 2 goes on being added, or goes: when the move ends if it has all the records."""
    running = reassigned((1,), (2,))
    if not is_whole:
        removing = tuple(one for one in removing if one != 2)
    found = retargeted(running, target, (1, 2) if is_whole else (1,))
    assert found == Assignment((*target, *removing), adding, removing)


@pytest.mark.parametrize(
    ("old", "new", "in_sync", "minimum", "ends"),
    [
        ((1, 2), (2, 3), (1, 3), 2, False),  # Kafka ends here, with one copy of what two had
        ((1, 2), (2, 3), (1, 3), 1, True),
        ((1, 2), (2, 3), (2, 3), 2, True),
        ((1, 2), (2, 3), (1, 2), 1, False),
        ((1,), (2,), (1, 2), 2, True),
        ((1,), (2,), (1,), 1, False),
        ((1, 2, 3), (1,), (1, 2), 2, True),
        ((1, 2, 3), (1, 2), (1, 3), 1, False),
        ((1, 2, 3), (4,), (1, 4), 1, True),
        ((0, 1, 2, 3, 4), (2, 3, 4, 5), (0, 1, 5), 1, False),
    ],
)
def test_a_reassignment_ends_when_enough_of_the_target_are_in_sync(old, new, in_sync, minimum, ends):
    """All that are added, the minimum of those that stay, and all of them if they become fewer."""
    found = completed(reassigned(old, new), in_sync, minimum)
    assert found == (Assignment(new) if ends else None)


@pytest.mark.parametrize(
    ("in_sync", "minimum", "is_granted"),
    [((1, 2, 3), 2, True), ((1, 3), 2, False), ((1, 3), 1, True), ((3,), 1, False), ((1, 2), 5, True)],
)
def test_a_cancel_needs_enough_of_the_old_replicas_in_sync(in_sync, minimum, is_granted):
    """{1,2} to {2,3}, cancelled: what only 3 has in sync would be gone."""
    running = reassigned((1, 2), (2, 3))
    found = cancelled(running, in_sync, minimum)
    assert (found is not None) == is_granted
    if found is not None:
        assert (set(found.replicas), found.is_reassigning) == ({1, 2}, False)


def test_an_assignment_is_read_from_a_partition():
    """Replicas, and those that come and go."""
    image = PartitionImage((1, 2, 3), (1,), adding_replicas=(3,), removing_replicas=(1,))
    assert Assignment.of(image) == Assignment((1, 2, 3), (3,), (1,))
    assert Assignment.of(image).is_reassigning
