"""The questions and events of a shard of groups beside the requests of members."""

import pytest

from stratalog.metadata.groups import group_events
from stratalog.metadata.groups.group import GroupRequest, GroupSettings
from stratalog.metadata.groups.group_events import (
    DeleteGroup,
    DescribeGroup,
    ListGroups,
    SettingsChanged,
    TopicsChanged,
)
from stratalog.metadata.groups.shard.routes import ROUTES
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode


def names(world, **filters):
    """The groups that a list with these filters shows."""
    (reply,) = world.shard.step(ListGroups(1, **filters), world.now)
    return [each.group_id for each in reply.response.groups]


def test_every_one_of_them_is_taken():
    """By the shard itself, or as the part of a request that is about one group."""
    shard = GroupShard(0, GroupSettings(), EMPTY_IMAGE)
    for name in group_events.__all__:
        kind = getattr(group_events, name)
        assert kind in shard._events or kind in ROUTES, name


def test_a_list_without_filters_shows_every_group(classic_world):
    """Empty filters are none; any other lets through what it names, in lower case."""
    world = classic_world()
    world.commit_offset()
    assert names(world) == ["g"]
    assert names(world, states=frozenset({"empty"})) == ["g"]
    assert names(world, states=frozenset({"stable"})) == []
    assert names(world, types=frozenset({"classic"})) == ["g"]
    assert names(world, types=frozenset({"consumer"})) == []


def test_the_image_and_the_settings_are_the_newest(classic_world):
    """The shard's image and settings are what its groups see from then on."""
    shard, now = classic_world().shard, classic_world().now
    settings = GroupSettings(offset_metadata_max_bytes=1)
    assert shard.step(SettingsChanged(settings), now) == []
    assert shard.step(TopicsChanged(EMPTY_IMAGE, {}), now) == []
    assert (shard.surroundings.settings, shard.surroundings.image) == (settings, EMPTY_IMAGE)


@pytest.mark.parametrize("part", [DescribeGroup, DeleteGroup])
def test_parts_of_requests_are_about_the_group_of_their_request(part, classic_world):
    """They say nothing themselves; a group that is not there is named in the answer."""
    world = classic_world()
    (reply,) = world.shard.step(GroupRequest(1, "gone", 6, part()), world.now)
    answer = reply.response.groups[0] if part is DescribeGroup else reply.response
    code = answer.error_code if part is DescribeGroup else answer.code
    assert code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "gone" in str(answer)
