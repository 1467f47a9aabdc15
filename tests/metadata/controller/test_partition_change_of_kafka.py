"""Facts of Kafka's ``PartitionChangeBuilder`` (4.3.1), read in its source: what it writes, and what is written here."""

from typing import NamedTuple

import pytest

from stratalog.metadata.controller.partition_change import Election, PartitionRules, PartitionTarget, partition_change
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery, PartitionImage

_RECOVERING = int(LeaderRecovery.RECOVERING)


class Case(NamedTuple):
    """A partition of replicas 1, 2, 3, a change, and the fields of the record; ``None`` is no record."""

    leader: int
    isr: tuple[int, ...]
    record: dict | None
    elr: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    target: tuple[int, ...] | None = None
    dead: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    minimum: int = 2
    election: Election = Election.ONLINE


BOTH = {
    "above the minimum a member that leaves is not eligible": Case(1, (1, 2, 3), {"isr": [1, 2]}, target=(1, 2)),
    "below it is": Case(1, (1, 2), {"isr": [1], "eligible_leader_replicas": [2]}, target=(1,)),
    "eligible ones stay while it is below": Case(
        1,
        (1, 2),
        {"leader": 2, "isr": [2], "eligible_leader_replicas": [1, 3]},
        elr=(3,),
        target=(2,),
        dead=(1,),
        minimum=3,
    ),
    "at the minimum they go": Case(1, (1,), {"isr": [1, 2], "eligible_leader_replicas": []}, elr=(2, 3), target=(1, 2)),
    "a joiner below the minimum is not eligible any more": Case(
        1, (1,), {"isr": [1, 3], "eligible_leader_replicas": [2]}, elr=(2, 3), target=(1, 3), minimum=3
    ),
    "the set becomes empty, and the leader is remembered": Case(
        1,
        (1,),
        {"leader": NO_LEADER, "isr": [], "eligible_leader_replicas": [1, 2], "last_known_elr": [1]},
        elr=(2,),
        target=(),
        dead=(1, 2),
    ),
    "the first eligible replica in the order of assignment leads an empty set": Case(
        NO_LEADER,
        (),
        {"leader": 2, "isr": [2], "eligible_leader_replicas": [3], "last_known_elr": []},
        (2, 3),
        (1,),
        dead=(1,),
    ),
    "an unclean stop takes a replica out of both sets": Case(
        NO_LEADER, (), {"eligible_leader_replicas": [2]}, (1, 2), (1,), lost=(1,), dead=(1, 2)
    ),
    "... also the last of them, and the last leader stays known": Case(
        NO_LEADER, (), {"eligible_leader_replicas": []}, (1,), (1,), lost=(1,), dead=(1, 2)
    ),
    "the last known leader leads without an unclean election": Case(
        NO_LEADER,
        (),
        {"leader": 1, "isr": [1], "last_known_elr": [], "leader_recovery_state": _RECOVERING},
        known=(1,),
    ),
    "... on a preferred election, too": Case(
        NO_LEADER,
        (),
        {"leader": 2, "isr": [2], "last_known_elr": [], "leader_recovery_state": _RECOVERING},
        known=(2,),
        election=Election.PREFERRED,
    ),
    "... but not while it is away": Case(NO_LEADER, (), None, known=(1,), dead=(1,)),
    "... and not while a replica is eligible": Case(NO_LEADER, (), None, (2,), (1,), dead=(2,)),
    "... nor one of several": Case(NO_LEADER, (), None, known=(1, 2)),
    "an unclean election takes the last known leader before the first replica": Case(
        NO_LEADER,
        (),
        {"leader": 3, "isr": [3], "last_known_elr": [], "leader_recovery_state": _RECOVERING},
        known=(3,),
        election=Election.UNCLEAN,
    ),
    "... else the first that is up": Case(
        NO_LEADER,
        (),
        {
            "leader": 2,
            "isr": [2],
            "eligible_leader_replicas": [],
            "last_known_elr": [],
            "leader_recovery_state": _RECOVERING,
        },
        (1,),
        (1,),
        dead=(1,),
        election=Election.UNCLEAN,
    ),
    "a leader that stays is not written": Case(1, (1, 2), None, election=Election.UNCLEAN),
    "a preferred replica that is in sync leads": Case(2, (1, 2), {"leader": 1}, election=Election.PREFERRED),
    "... one that is not does not": Case(2, (2, 3), None, election=Election.PREFERRED),
    "... nor one that is eligible only": Case(2, (2,), None, elr=(1,), election=Election.PREFERRED),
}

OTHERWISE = {
    "an eligible replica is elected past a member that is away": (
        Case(3, (1,), {"leader": 2, "isr": [2], "eligible_leader_replicas": [1]}, elr=(2,), dead=(1, 3)),
        {"leader": NO_LEADER, "last_known_elr": [3]},
    ),
}
"""Where Kafka's record, the second one, is another on purpose."""


def fields_of(case):
    image = PartitionImage(
        (1, 2, 3), case.isr, case.leader, eligible_leader_replicas=case.elr, last_known_eligible=case.known
    )
    rules = PartitionRules(
        is_acceptable=lambda broker, _: broker not in case.dead,
        lives=lambda broker, _: broker not in case.dead,
        default_directory=lambda _: bytes(16),
        level=30,
        min_in_sync_replicas=case.minimum,
        election=case.election,
        has_eligible=True,
    )
    target = PartitionTarget(in_sync_replicas=case.target, lost=frozenset(case.lost))
    record = partition_change(b"t" * 16, 0, image, target, rules)
    if record is None:
        return None
    unset = {"leader": -2, "leader_recovery_state": -1}
    names = ("leader", "isr", "eligible_leader_replicas", "last_known_elr", "leader_recovery_state", "replicas")
    return {name: getattr(record, name) for name in names if getattr(record, name) != unset.get(name)}


@pytest.mark.parametrize("fact", BOTH)
def test_the_record_is_that_of_kafka(fact):
    """Field by field; a field that is not named is not in the record."""
    assert fields_of(BOTH[fact]) == BOTH[fact].record


@pytest.mark.parametrize("fact", OTHERWISE)
def test_the_record_is_another_one_on_purpose(fact):
    """The reasons stand with the rules of `partition_change`."""
    case, of_kafka = OTHERWISE[fact]
    assert fields_of(case) == case.record != of_kafka
