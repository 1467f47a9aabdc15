"""The places of replicas that a broker reports, and when a damaged one may be cut."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.placing import Placing, is_counted_on, is_given_up
from stratalog.metadata.image.directory_ids import LOST, MIGRATING, UNASSIGNED
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage
from stratalog.wire.topic import TopicPartition

ME, MINE = 1, b"m" * 16
ID = b"i" * 16


class Told:
    """The reports, as the controller is to get them."""

    def __init__(self):
        self.places = {}

    def placed(self, topic_id, partition, directory):
        self.places[topic_id, partition] = directory

    def gone(self, topic_id, partition):
        self.places.pop((topic_id, partition), None)

    def awaits(self, topic_id, partition):
        return (topic_id, partition) in self.places


class Bench:
    """One replica of this broker."""

    def __init__(self, level=20):
        self.told, self.image = Told(), SimpleNamespace(features={"metadata.version": level})
        directories = SimpleNamespace(of=lambda _writer: SimpleNamespace(directory_id=MINE))
        self.placing = Placing(self.told, node_id=ME, directories=directories, image=lambda: self.image)
        self.partition = SimpleNamespace(directory=None, is_damaged=False)
        self.unified = SimpleNamespace(topic_id=ID, topic_partition=TopicPartition("t", 0), partition=self.partition)

    def tell(self, state):
        self.placing.tell(self.unified, state)
        return self.told.places.get((ID, 0))


def state(in_sync, leader, directory=MINE, eligible=()):
    return PartitionImage(
        (1, 2, 3),
        tuple(in_sync),
        leader,
        directories=(directory, b"b" * 16, b"c" * 16),
        eligible_leader_replicas=eligible,
    )


@pytest.mark.parametrize(
    ("present", "counts"),
    [
        (state((1,), 1), True),
        (state((2, 1), 2), True),
        (state((1,), NO_LEADER), True),
        (state((), NO_LEADER), True),
        (state((2,), NO_LEADER), True),
        (state((2,), 2, eligible=(1,)), True),
        (state((2,), 2), False),
        (state((2, 3), 3), False),
    ],
)
def test_a_replica_counts_while_it_leads_or_may_lead_or_none_leads(present, counts):
    """An empty one in its place would have the others drop what they have. The only replica has no others."""
    assert is_counted_on(present, ME) is counts
    only = replace(present, replicas=(1,), in_sync_replicas=(1,), leader=1, eligible_leader_replicas=())
    assert not is_counted_on(only, ME)


@pytest.mark.parametrize(
    ("present", "given_up"),
    [
        (state((1, 2), 1), True),
        (state((1,), 1), False),
        (state((1,), 1, eligible=(2,)), True),
        (state((1,), NO_LEADER), False),
        (state((2,), 2), True),
        (state((2, 3), 2), True),
        (state((), NO_LEADER), False),
        (state((2,), 2, eligible=(1,)), True),
    ],
)
def test_a_damaged_replica_is_given_up_while_others_have_everything(present, given_up):
    """The last that counts goes on, and so does one that could only be elected for want of any other."""
    assert is_given_up(present, ME) is given_up
    one = Bench()
    assert one.tell(present) is None
    one.partition.is_damaged = True
    assert one.tell(present) == (LOST if given_up else None)


def test_a_replica_that_is_whole_again_has_its_directory_told():
    """Also one that was not given up after all: the others left meanwhile."""
    one = Bench()
    assert one.tell(state((2,), 2, LOST)) == MINE
    one.partition.is_damaged = True
    assert one.tell(state((1,), NO_LEADER, LOST)) == MINE
    assert one.tell(state((2,), 2, LOST)) is None


@pytest.mark.parametrize(
    ("present", "level", "may_cut"),
    [
        (state((2,), 2, LOST), 20, True),
        (state((2,), 2), 20, False),
        (state((1, 2), 2, LOST), 20, False),
        (state((2,), 2, LOST, eligible=(1,)), 20, False),
        (state((2,), 2, UNASSIGNED), 16, True),
        (state((1, 2), 2, UNASSIGNED), 16, False),
    ],
)
def test_a_damaged_replica_is_cut_when_a_committed_record_has_it_as_lost_and_in_no_set(present, level, may_cut):
    """One that is outside may have been let in by a request that is still on its way: LOST raises the leader epoch."""
    assert Bench(level).placing.may_cut(present) is may_cut


def test_no_place_is_reported_where_the_metadata_have_no_directories():
    """Below level 17, and in a cluster of one broker."""
    assert Bench(16).tell(state((1, 2), 1, UNASSIGNED)) is None
    alone = Placing(None, node_id=ME, directories=SimpleNamespace(), image=SimpleNamespace)
    alone.tell(SimpleNamespace(), state((1,), 1))
    alone.gone(b"t" * 16, 0)
    assert not alone.is_told


def test_the_directory_of_a_move_is_known_before_the_replica_lies_there():
    """Images that come meanwhile do not bring the one of before back; when the move has ended, the place counts."""
    one, theirs = Bench(), b"t" * 16
    present = state((1, 2), 1)
    topic = SimpleNamespace(partitions={0: present})
    one.image.topics = SimpleNamespace(by_id={ID: topic})
    assert not one.placing.announce(one.unified, theirs)
    assert one.told.places == {(ID, 0): theirs}
    assert one.tell(present) == theirs
    topic.partitions[0] = state((1, 2), 1, directory=theirs)
    assert one.placing.announce(one.unified, theirs)
    assert one.told.places == {}
    one.placing.settled(one.unified)
    assert one.told.places == {(ID, 0): MINE}, "it did not move after all"


def test_an_announcement_is_taken_back_though_no_image_shows_it_yet():
    """It may be on its way. Until the controller has taken the word of where the replica lies, it may be at home in the other."""
    one, theirs = Bench(), b"t" * 16
    present = state((1, 2), 1)
    one.image.topics = SimpleNamespace(by_id={ID: SimpleNamespace(partitions={0: present})})
    one.placing.announce(one.unified, theirs)
    assert not one.placing.is_taken_for_home(theirs)
    one.placing.take_back(MINE)
    assert one.told.places == {(ID, 0): theirs}
    one.placing.take_back(theirs)
    assert one.told.places == {(ID, 0): MINE}
    assert one.tell(present) == MINE, "an image of before ends no report"
    assert (one.placing.is_taken_for_home(theirs), one.placing.is_taken_for_home(MINE)) == (True, False)
    one.told.places.clear()  # the controller has answered
    assert not one.placing.is_taken_for_home(theirs)
    assert one.tell(state((1, 2), 1, directory=theirs)) == MINE
    assert one.tell(present) is None


def test_a_cluster_without_directories_is_not_asked():
    """There, a replica moves at once."""
    one = Bench(level=14)
    one.image.topics = SimpleNamespace(by_id={ID: SimpleNamespace(partitions={0: state((1, 2), 1)})})
    assert one.placing.announce(one.unified, b"t" * 16)
    assert one.told.places == {}


@pytest.mark.parametrize(("level", "directory", "told"), [(20, MINE, LOST), (20, LOST, None), (10, MINE, None)])
def test_a_replica_whose_log_is_gone_is_reported_as_lost(level, directory, told):
    """Once; a cluster without directories cannot be told by one."""
    bench = Bench(level)
    assert bench.placing.give_up(ID, 0, state((1,), 1, directory)) is (level == 20)
    assert bench.told.places.get((ID, 0)) == told
    assert bench.placing.give_up(ID, 0, state((1,), 1, directory)), "once"


@pytest.mark.parametrize(
    ("replicas", "leader", "topic_id", "name", "held"),
    [
        ((2, 3), 2, ID, "t", True),
        ((2, ME), 2, ID, "t", False),
        ((2, 3), NO_LEADER, ID, "t", False),
        ((2, 3), 2, b"o" * 16, "t", False),
        ((2, 3), 2, ID, "u", False),
        ((2, 3), 2, ID, "t-9", False),
    ],
    ids=["elsewhere", "here too", "not led", "another topic", "another name", "no such partition"],
)
def test_a_log_is_held_elsewhere_if_others_lead_it_and_none_is_to_be_here(replicas, leader, topic_id, name, held):
    """Without word of it in the metadata nothing is removed."""
    bench, (topic, _, number) = Bench(), name.partition("-")
    known = SimpleNamespace(name="t", topic_id=ID, partitions={0: PartitionImage(replicas, (2,), leader)})
    bench.image.topics = SimpleNamespace(by_id={ID: known})
    assert bench.placing.is_held_elsewhere(TopicPartition(topic, int(number or 0)), topic_id) is held


def test_a_partition_is_placed_here_if_the_image_has_a_replica_of_it_on_this_broker():
    """No log is missed of a topic that the image does not have, or of a partition that others have."""
    bench = Bench()
    others = replace(state((2,), 2), replicas=(2, 3))
    bench.image.topics = SimpleNamespace(by_name={"t": SimpleNamespace(partitions={0: state((2,), 2), 1: others})})
    names = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 0)]
    assert [bench.placing.is_placed_here(one) for one in names] == [True, False, False, False]


def test_replicas_that_may_lie_in_any_directory_are_named():
    """Those without one in the image, and only ones, which may be about to move; not those of other brokers."""
    bench = Bench()
    two = replace(state((1,), 1), replicas=(1, 2), directories=(b"d" * 16, b"o" * 16))
    states = {
        0: two,
        4: replace(two, replicas=(1,), directories=(b"d" * 16,)),
        1: state((1,), 1, UNASSIGNED),
        2: state((1,), 1, MIGRATING),
    }
    states[3] = replace(state((2,), 2, UNASSIGNED), replicas=(2, 3), directories=(UNASSIGNED, UNASSIGNED))
    topics = {ID: SimpleNamespace(name="t", topic_id=ID, partitions=states)}
    bench.image = SimpleNamespace(topics=SimpleNamespace(by_id=topics))
    assert {name.partition for name, _ in bench.placing.anywhere()} == {1, 2, 4}
