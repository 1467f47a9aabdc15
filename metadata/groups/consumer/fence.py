"""How members go: they leave, or are fenced because they were not heard of, or did not do what they were asked to."""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.metadata.coordination import Action, Now, Reply, Write
from stratalog.metadata.groups.consumer.core import ConsumerCore
from stratalog.metadata.groups.consumer.downgrade import downgrade, may_downgrade
from stratalog.metadata.groups.consumer.member import ConsumerMember

__all__ = ["fence"]


def fence(
    group: ConsumerCore, members: Sequence[ConsumerMember], now: Now, replies: Sequence[Reply] = ()
) -> list[Action]:
    """Remove members, and answer. The group goes back to the classic protocol if only such members are left."""
    if may_downgrade(group, members):
        return downgrade(group, members, now, replies)
    update = group.update(now)
    update.remove(members)
    for member in members:
        group.cancel_timers(member.member_id)
    return [Write(update.records, list(replies))]
