"""A consumer group as administrators see it."""


def test_a_description_has_epochs_assignor_and_members(group_world):
    """Epochs, assignor, and of each member what it said, its partitions and its target partitions."""
    world = group_world({"a": 4})
    world.join("x", "a", rack_id="r", instance_id="i")
    world.join("y", pattern="a")
    group = world.describe()
    assert (group.group_id, group.group_state, group.assignor_name) == ("g", "Reconciling", "uniform")
    assert (group.group_epoch, group.assignment_epoch) == (2, 2)
    x, y = group.members
    assert (x.member_id, x.instance_id, x.rack_id, x.member_epoch, x.member_type) == ("x", "i", "r", 1, 1)
    assert (x.client_id, x.client_host) == ("client", "/10.0.0.1")
    assert (x.subscribed_topic_names, x.subscribed_topic_regex) == (["a"], "")
    assert (y.subscribed_topic_names, y.subscribed_topic_regex) == ([], "a")
    [has] = x.assignment.topic_partitions
    assert (has.topic_id, has.topic_name, has.partitions) == (world.id("a"), "a", [0, 1, 2, 3])
    assert x.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert y.assignment.topic_partitions == []
    assert y.target_assignment.topic_partitions[0].partitions == [2, 3]


def test_a_classic_member_has_type_0(group_world):
    """A member of the classic protocol is of type 0."""
    world = group_world({"a": 4}, consumer_migration_policy="upgrade")
    world.join("x", "a")
    world.classic_join("", "a", version=3)
    assert [member.member_type for member in world.describe().members] == [1, 0]


def test_partitions_of_a_missing_topic_are_left_out(group_world):
    """Partitions of a topic that exists no longer have no name to be shown by."""
    world = group_world({"a": 4, "b": 1})
    world.join("x", "a", "b")
    world.delete("a")
    [member] = world.describe().members
    assert [part.topic_name for part in member.assignment.topic_partitions] == ["b"]
