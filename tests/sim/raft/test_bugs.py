"""Bugs that were put in on purpose, each drops one rule: the simulation has to find each within 200 seeds."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sim.raft.plan import Plan
from sim.raft.world import run_seed
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft import (
    elections,
    fetch_serving,
    following,
    kraft_version,
    leadership,
    membership,
    raft,
    reconfiguration,
)
from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.events import SnapshotDue, UpgradeProposed
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.messages import AddVoterRequest, Batch, KRaftVersion, OffsetAndEpoch, RemoveVoterRequest
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.replica_progress import ReplicaProgress
from stratalog.metadata.raft.states import Candidate, Follower, Leader, Prospective, Resigned, Unattached, Votes
from stratalog.metadata.raft.voter_set import Voter, VoterSet
from stratalog.wire.errors import ErrorCode, KafkaError

Bug = Callable[[pytest.MonkeyPatch], None]


def a_vote_is_not_stored(patch):
    """Granted votes stay in memory."""
    store = RaftCore.store

    def forgetful(self):
        if not isinstance(self.role, Unattached | Prospective) or self.role.voted is None:
            store(self)

    patch.setattr(RaftCore, "store", forgetful)


def a_candidacy_is_not_stored(patch):
    """The epoch and the vote for itself stay in memory."""
    store = RaftCore.store
    patch.setattr(RaftCore, "store", lambda self: None if isinstance(self.role, Candidate) else store(self))


def a_vote_is_given_twice(patch):
    """A vote that was cast in the epoch is forgotten."""
    grant = elections.would_grant

    def generous(core, request):
        role = core.role
        if not request.pre_vote and isinstance(role, Unattached | Prospective):
            core.role = replace(role, voted=None)
        granted = grant(core, request)
        core.role = role
        return granted

    patch.setattr(elections, "would_grant", generous)


def votes_go_to_any_log(patch):
    """The candidate's log is not compared."""
    patch.setattr(LogView, "is_covered_by", lambda *_: True)


def votes_of_another_disk_count(patch):
    """A wiped voter votes again in the epoch in which it has voted."""
    vote = elections.on_vote
    patch.setattr(elections, "on_vote", lambda core, token, request: vote(core, token, replace(request, voter=core.me)))


def half_of_the_voters_elect(patch):
    """Two of four, and one of three."""
    patch.setattr(VoterSet, "majority", property(lambda self: max(1, len(self.voters) // 2)))


def a_restarted_leader_leads(patch):
    """In the epoch that it led before."""
    start = Raft.start

    def resume(self, **now):
        actions, core = start(self, **now), self._core
        if isinstance(core.role, Resigned):
            end = core.log.end_offset
            core.role = Leader(
                core.epoch, core.me.id, end - 1, check_quorum_deadline_ms=core.now_ms + 3000, begin_due_ms=0
            )
            return [*(action for action in actions if not isinstance(action, act.Send)), *self._settle()]
        return actions

    patch.setattr(Raft, "start", resume)


def written_records_count_as_synced_at_the_leader(patch):
    """As in Kafka."""
    append = RaftCore.append

    def optimistic(self, batches):
        append(self, batches)
        if isinstance(self.role, Leader):
            self.log = self.log.flushed(self.log.end_offset)

    patch.setattr(RaftCore, "append", optimistic)


def voters_fetch_before_they_have_synced(patch):
    """The next fetch says what is only written."""
    patch.setattr(following, "may_fetch", lambda _: True)


def observers_do_not_sync(patch):
    """Also those that may become voters."""
    patch.setattr(RaftCore, "syncs", property(lambda self: self.is_voter))


def older_records_commit_before_the_own_epoch(patch):
    """The start of the epoch is forgotten (Raft's figure 8)."""
    become = leadership.become_leader

    def impatient(core):
        become(core)
        core.role = replace(core.role, start_offset=-1)

    patch.setattr(leadership, "become_leader", impatient)


def diverging_fetches_count(patch):
    """Before they are compared with the log."""
    fetch = fetch_serving.on_fetch

    def hasty(core, token, request):
        if isinstance(core.role, Leader) and request.epoch == core.epoch:
            fetch_serving.count_fetch(core, request)
            leadership.advance(core)
        fetch(core, token, request)

    patch.setattr(fetch_serving, "on_fetch", hasty)


def diverging_logs_are_not_seen(patch):
    """Every offset is taken for one of the leader's log."""
    patch.setattr(LogView, "where_parts", lambda *_: None)


def fetches_count_by_id(patch):
    """Whichever disk they come from."""

    def of(self, key):
        known = [each for each in self.replicas if each.key.id == key.id]
        return max(known, key=lambda each: each.end_offset, default=real(self, key))

    real = ReplicaProgress.of
    patch.setattr(ReplicaProgress, "of", of)


def followers_act_on_all_they_have(patch):
    """And not on committed records only."""
    commit = RaftCore.commit

    def eager(self, high_watermark):
        commit(self, self.log.end_offset if isinstance(self.role, Follower) else high_watermark)

    patch.setattr(RaftCore, "commit", eager)


def snapshots_end_at_the_log_end(patch):
    """And not at the high watermark."""

    def due(core, event):
        end = core.log.end_offset
        core.emit(act.WriteSnapshot(OffsetAndEpoch(end, core.log.epoch_at(end))))

    patch.setitem(raft._HANDLERS, SnapshotDue, due)


def a_second_change_does_not_wait(patch):
    """Voters change although the last change is not committed."""

    def careless(core, request):
        if fetch_serving.leader_problem(core, None, core.epoch) is not ErrorCode.NONE or not core.log.kraft_version:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no")

    patch.setattr(reconfiguration, "check_change", careless)


def two_voters_are_removed_at_once(patch):
    """A set may then have a majority that shares no voter with one before."""
    changed = reconfiguration.changed_voters

    def twice(voters, request):
        left = changed(voters, request)
        return VoterSet(left.voters[1:]) if isinstance(request, RemoveVoterRequest) and len(left) > 1 else left

    patch.setattr(reconfiguration, "changed_voters", twice)


def elections_raise_the_epoch_at_once(patch):
    """Without a pre-vote, so that a voter that was cut off ends the epoch of the others."""

    def stand(self):
        votes = Votes(granted=frozenset({self.me.id}))
        self.become(Candidate(self.epoch + 1, self.election_deadline_ms(), votes, self.me))

    patch.setattr(RaftCore, "stand", stand)


def a_leader_whose_removal_is_open_does_not_stand(patch):
    """The others cannot elect anyone without it."""
    patch.setattr(RaftCore, "may_stand", property(lambda self: self.is_voter))


def a_loading_node_goes_on(patch):
    """It fetches and stands while the snapshot takes the place of its log."""
    patch.setattr(RaftCore, "is_loading", property(lambda _: False, lambda *_: None), raising=False)


def epochs_of_answers_are_not_heeded(patch):
    """A higher epoch changes nothing."""
    heed = RaftCore.heed
    patch.setattr(
        RaftCore, "heed", lambda self, epoch, leader, where: heed(self, min(epoch, self.epoch), leader, where)
    )


def anybody_is_asked_before_the_sync(patch):
    """A search for the leader says what is only written; the server may be the leader."""

    def hasty(core):
        if core.may_send(act.BOOTSTRAP):
            core.send(act.BOOTSTRAP, following._fetch(core))

    patch.setattr(following, "ask_any", hasty)


def voters_say_nothing_of_themselves(patch):
    """A voter that has moved keeps its old address in the record, and static voters are never upgraded."""
    patch.setattr(membership, "ask_if_due", lambda _: False)


def a_change_is_asked_for_once(patch):
    """An answer that is lost, or a refusal, is the end of it."""
    ask = membership.ask_if_due

    def once(core):
        asked = ask(core)
        if asked:
            core.role = replace(core.role, change_due_ms=10**9)
        return asked

    patch.setattr(membership, "ask_if_due", once)


def a_new_disk_joins_beside_the_old_one(patch):
    """Its old one is not removed first, so it is refused for ever."""
    wanted = membership._wanted_change

    def add(core, role):
        request = wanted(core, role)
        if not isinstance(request, RemoveVoterRequest):
            return request
        return AddVoterRequest(Voter(core.me, core.identity.endpoints), ack_when_committed=False)

    patch.setattr(membership, "_wanted_change", add)


def a_node_may_have_two_votes(patch):
    """The id of a newcomer is not looked for among the voters."""
    changed = reconfiguration.changed_voters

    def generous(voters, request):
        if isinstance(request, AddVoterRequest):
            return voters.added(request.voter)
        return changed(voters, request)

    patch.setattr(reconfiguration, "changed_voters", generous)


def an_upgrade_does_not_wait_for_all_voters(patch):
    """The others are named as the settings have them: without a disk."""
    wanted = kraft_version.upgraded_voters

    def partial(core, role, level):
        told = {each.key.id for each in role.told}
        silent = (each for each in core.voters if each.key.id not in told)
        return wanted(core, replace(role, told=(*role.told, *silent)), level)

    patch.setattr(kraft_version, "upgraded_voters", partial)


def an_upgrade_forgets_its_voters(patch):
    """Only the level is written."""

    def upgrade(core, event):
        role, end = core.role, core.log.end_offset
        if isinstance(role, Leader) and role.is_active and core.log.kraft_version == 0:
            core.append((Batch(end, end + 1, role.epoch, (KRaftVersion(1),)),))

    patch.setitem(raft._HANDLERS, UpgradeProposed, upgrade)


FOUND: dict[Bug, str] = {
    a_vote_is_not_stored: "not on its disk",
    a_candidacy_is_not_stored: "is not on its disk",
    a_vote_is_given_twice: "two leaders|there was|not on its disk",
    votes_go_to_any_log: "without all committed",
    votes_of_another_disk_count: "two leaders|without all committed|there was",
    half_of_the_voters_elect: "two leaders|of voters|without all committed|there was|waits for",
    a_restarted_leader_leads: "there was",
    written_records_count_as_synced_at_the_leader: "of voters",
    voters_fetch_before_they_have_synced: "synced are",
    observers_do_not_sync: "synced are",
    older_records_commit_before_the_own_epoch: "goes back",
    diverging_fetches_count: "of voters",
    diverging_logs_are_not_seen: "is committed there|there was",
    fetches_count_by_id: "of voters",
    followers_act_on_all_they_have: "acts on records",
    snapshots_end_at_the_log_end: "a snapshot of node",
    a_second_change_does_not_wait: "changes the voters again",
    two_voters_are_removed_at_once: "at once",
    elections_raise_the_epoch_at_once: "raised the epoch",
    a_leader_whose_removal_is_open_does_not_stand: "not committed everywhere|a leader has gone|voters are not right",
    a_loading_node_goes_on: "without all committed|is not what is committed|cannot take|there was|has nothing|acts on",
    epochs_of_answers_are_not_heeded: "not committed everywhere|two leaders",
    anybody_is_asked_before_the_sync: "synced are",
    voters_say_nothing_of_themselves: "voters are not right",
    a_change_is_asked_for_once: "voters are not right",
    a_new_disk_joins_beside_the_old_one: "voters are not right",
    a_node_may_have_two_votes: "vote twice",
    an_upgrade_does_not_wait_for_all_voters: "without a disk",
    an_upgrade_forgets_its_voters: "leaves the voters out",
}
"""Each bug, and what the promise that finds it says."""
PLANS: dict[Bug, Plan] = {
    a_node_may_have_two_votes: Plan(
        faults=("reconfigure",), fault_every_ms=200, duplication=0.5, delay_ms=50, auto_join=True, faults_ms=20_000
    ),
    votes_of_another_disk_count: Plan(faults=("isolate", "kill", "wipe"), fault_every_ms=300, faults_ms=10_000),
    a_change_is_asked_for_once: Plan(faults=("isolate", "move"), loss=0.3, fault_every_ms=1000, faults_ms=10_000),
    a_new_disk_joins_beside_the_old_one: Plan(faults=("wipe",), auto_join=True, faults_ms=10_000),
    an_upgrade_does_not_wait_for_all_voters: Plan(faults=("kill", "upgrade"), kraft_version=0, fault_every_ms=400),
    an_upgrade_forgets_its_voters: Plan(faults=("kill", "upgrade"), kraft_version=0),
    a_restarted_leader_leads: Plan(faults=("power",), fault_every_ms=400, sync_ms=200, propose_every_ms=40),
    a_leader_whose_removal_is_open_does_not_stand: Plan(
        faults=("isolate", "kill", "reconfigure"), fault_every_ms=300, sync_ms=200, faults_ms=10_000
    ),
    a_loading_node_goes_on: Plan(
        faults=("cut", "isolate", "kill"), fault_every_ms=400, sync_ms=200, snapshot_every_ms=300, propose_every_ms=40
    ),
}
"""Surroundings in which a rare story is less rare; the other bugs are found in any."""
SEEDS_MAX = 200
SEED_TRIED_FIRST: dict[Bug, int] = {
    a_vote_is_given_twice: 115,
    observers_do_not_sync: 1,
    older_records_commit_before_the_own_epoch: 11,
    fetches_count_by_id: 8,
    a_second_change_does_not_wait: 5,
    two_voters_are_removed_at_once: 5,
    a_leader_whose_removal_is_open_does_not_stand: 50,
    epochs_of_answers_are_not_heeded: 1,
    anybody_is_asked_before_the_sync: 5,
    voters_say_nothing_of_themselves: 7,
    a_change_is_asked_for_once: 4,
    a_node_may_have_two_votes: 14,
}
"""The first seed that finds the bug, where that is not 0; a change of the machine or of the simulation may move it."""
BY_DEFAULT = frozenset(
    {
        a_vote_is_not_stored,
        a_candidacy_is_not_stored,
        votes_go_to_any_log,
        a_restarted_leader_leads,
        written_records_count_as_synced_at_the_leader,
        voters_fetch_before_they_have_synced,
        older_records_commit_before_the_own_epoch,
        diverging_fetches_count,
        diverging_logs_are_not_seen,
        followers_act_on_all_they_have,
        snapshots_end_at_the_log_end,
        elections_raise_the_epoch_at_once,
    }
)
"""Those that are found within a second; `make test-slow` plants all."""


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=() if bug in BY_DEFAULT else pytest.mark.slow) for bug in FOUND],
    ids=lambda bug: bug.__name__,
)
def test_every_bug_is_found(bug, monkeypatch):
    """By a promise that says what is wrong."""
    bug(monkeypatch)
    seeds = [SEED_TRIED_FIRST.get(bug, 0), *range(SEEDS_MAX)]
    outcomes = (run_seed(seed, plan=PLANS.get(bug)) for seed in seeds)
    found = next((outcome for outcome in outcomes if outcome.problem is not None), None)
    assert found is not None, f"{SEEDS_MAX} seeds did not find it"
    assert re.search(FOUND[bug], found.problem), found.problem
