"""The simulated quorum itself: it repeats, it is calm when left alone, and its disks forget what real ones forget."""

import pytest

from sim.raft.disk import Disk
from sim.raft.invariants import Violation
from sim.raft.plan import Plan
from sim.raft.world import World, run_seed
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.messages import Batch, OffsetAndEpoch


def test_a_seed_is_a_run():
    """Two runs of a seed are the same to the last step; a traced one too."""
    plan, lines = Plan(faults_ms=5_000, loss=0.1), []
    first, again = run_seed(7, plan=plan), run_seed(7, plan=plan, out=lines.append)
    assert (first.sum, first.steps, first.committed) == (again.sum, again.steps, again.committed)
    assert len(lines) > 100
    assert run_seed(8, plan=plan).sum != first.sum


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_a_quorum_that_is_left_alone_has_one_election(voters):
    """Without faults the first leader leads for ever."""
    world = World(1, Plan(voters=voters, faults=(), faults_ms=20_000))
    world.run()
    assert len(world.invariants.leaders) == 1
    assert len(world.invariants.committed) > 100


def test_a_leader_that_is_killed_has_a_successor_within_the_fetch_time_out_and_an_election():
    """The time without a leader is bounded by 2 s of silence and 2 s of election."""
    world = World(3, Plan(faults=(), faults_ms=5_000))
    world.run()
    leader = world.leader
    leader.die(power=False)
    assert world.run_for(6_000, lambda: world.leader is not None and world.leader is not leader)
    target = len(world.invariants.committed) + 3
    alive = [node for node in world.nodes.values() if node.raft is not None]
    assert world.run_for(3_000, lambda: all(node.raft.high_watermark >= target for node in alive))


def test_a_power_cut_takes_what_is_not_synced():
    """A kill takes nothing."""
    disk = Disk(bytes(16))
    disk.batches = [Batch(0, 2, 1), Batch(2, 3, 1), Batch(3, 4, 2)]
    disk.flushed_offset = 2
    disk.lose_power(1)
    assert (disk.end_offset, [record[0] for record in disk.records(9)]) == (3, [1, 1, 1])
    disk.lose_power(0)
    assert disk.end_offset == 2
    assert len(disk.records(2, 1)) == 1


def test_a_log_that_a_power_cut_left_behind_its_snapshot_begins_behind_it():
    """The snapshot was synced, the log of an observer was not."""
    disk = Disk(bytes(16), batches=[Batch(0, 4, 1)])
    disk.snapshots[OffsetAndEpoch(4, 1)] = disk.snapshot_bytes(OffsetAndEpoch(4, 1), disk.view())
    disk.batches = []
    view = disk.view()
    assert (view.start_offset, view.end_offset) == (4, 4)
    assert len(disk.records(4)) == 4


def test_a_machine_that_stops_itself_fails_the_run():
    """No story of the simulation is allowed to break a promise."""
    world = World(1, Plan())
    with pytest.raises(Violation, match="two leaders"):
        world.invariants.before(world.nodes[1], act.Stop("two leaders"))
