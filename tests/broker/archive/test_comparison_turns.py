"""When a comparison begins and ends, with the archive and the bucket played by hand: one at a time, and none forgotten."""

from types import SimpleNamespace

import pytest

from stratalog.broker.archive.comparisons import ComparisonPorts, Comparisons
from stratalog.broker.replicas.led import Led
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.wire.topic import TopicPartition

US = Claimant(0, 1, bytes(16))


class Unified(SimpleNamespace):
    """A log by identity, as a key."""

    __hash__ = object.__hash__


class Rig:
    """One partition; every call of its archive is noted in ``calls``, every command waits in ``queue``."""

    def __init__(self) -> None:
        self.calls, self.queue, self.raised, self.skips, self.retired = [], [], [], [], []
        self.disk_takes = True
        self.suspect = self.doubted = False
        self.notes, self.timers = [], []
        self.state = None
        log = SimpleNamespace(
            log_end_offset=10,
            log_start_offset=0,
            local_log_start_offset=0,
            first_base_offset=0,
            may_have_gaps=False,
            recovery=SimpleNamespace(segments_checked=0),
            config=SimpleNamespace(flush_messages=1),
            leader_epochs=SimpleNamespace(entries=[]),
            advance_log_start=lambda _: None,
        )
        self.partition = SimpleNamespace(held_back=None, leader_epoch=1)
        self.unified = Unified(
            log=log,
            partition=self.partition,
            topic_partition=TopicPartition("t", 0),
            topic_id=bytes(16),
            comparison_owed=False,
        )
        self.archives = {}
        self.archive = self.lead("first")
        checkpoints = SimpleNamespace(
            is_suspect=lambda _: self.suspect or self.doubted,
            is_certain=lambda _: self.suspect,
            state_of=lambda _: self.state,
            suspect=self.note,
            suspect_all=lambda: True,
            clear=lambda _: self.calls.append("clear"),
            write_cleared=lambda: self.calls.append("write"),
        )
        self.comparisons = Comparisons(
            ComparisonPorts(
                submit=lambda command, answered: self.queue.append((command, answered)),
                gate=SimpleNamespace(equal_claims=None),
                checkpoints=checkpoints,
                timelines=SimpleNamespace(
                    skip_producers=lambda: self.skips.append(1),
                    raise_epoch=self.raise_epoch,
                ),
                transactions=SimpleNamespace(
                    retire_producers=lambda: self.retired.append(1), judge=lambda _, judged: judged()
                ),
                archives=self.archives,
                renew=lambda _: self.lead("second"),
                cluster_id="c",
                now_ms=lambda: 0,
                later=lambda seconds, call: self.timers.append(call),
            )
        )

    def lead(self, name):
        """A new archive of the partition."""

        def note(what):
            return lambda: self.calls.append(f"{name} {what}")

        remote = SimpleNamespace(known=True, end_offset=5, state=RemoteLogState(0, 5, 1), apply=lambda _: True)
        self.archives[self.unified] = SimpleNamespace(
            unified=self.unified,
            remote=remote,
            claimant=US,
            comparing=note("comparing"),
            compared=note("compared"),
            compare_later=note("later"),
        )
        return self.archives[self.unified]

    def raise_epoch(self, _, above, done, *, refused):
        """A command to the controller."""
        self.raised.append((above, done))
        self.refuse = refused

    def note(self, _, *, certain=True):
        """A note of a doubt."""
        if self.disk_takes:
            self.notes.append("certain" if certain else "doubt")
        return self.disk_takes

    def answer(self, report) -> None:
        """To the oldest command."""
        self.queue.pop(0)[1](report)


DELETED = commands.ManifestRead(SimpleNamespace(deleted=True, remote_end=0))
OTHER = commands.SecondTimelineReport("other", 7)


@pytest.fixture
def rig():
    return Rig()


def test_an_archive_that_was_deleted_meanwhile_is_gone_on_with(rig):
    """There is nothing to compare: it is claimed again, and begins anew if it is wanted."""
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    rig.answer(DELETED)
    assert rig.calls == ["first comparing", "first compared", "clear"]
    assert not rig.comparisons.running


def test_one_log_is_compared_once_at_a_time(rig):
    """A claim on its way may meet what the comparison is already about: the first to end must not serve the log."""
    rig.comparisons.compare(rig.archive, "longer", hold=True)
    rig.comparisons.compare(rig.archive, "other", hold=True)
    rig.comparisons.second_timeline("the bucket knows another start")
    assert len(rig.queue) == 1
    assert rig.partition.held_back


def test_a_comparison_that_cannot_be_noted_is_tried_later(rig):
    """The disk is full: without the note a crash would forget the doubt; the archive must not wait for ever."""
    rig.disk_takes = False
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    assert (rig.calls, rig.queue) == (["first later"], [])
    rig.disk_takes = True
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    assert len(rig.queue) == 1


def test_another_timeline_holds_a_log_back_that_was_served_so_far(rig):
    """A longer archive was a doubt only, a claim of another timeline is certain; the archive of the new epoch waits too."""
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    assert rig.partition.held_back is None
    rig.answer(OTHER)
    assert rig.partition.held_back
    above, done = rig.raised.pop()
    assert above == 7
    done()
    rig.answer(DELETED)
    assert rig.partition.held_back is None
    assert rig.calls == ["first comparing", "second comparing", "second compared", "clear"]


@pytest.mark.parametrize("certain", ["the claim meets another timeline", "the bucket knows another start"])
def test_a_comparison_that_runs_on_a_doubt_holds_its_log_once_it_is_certain(rig, certain):
    """The records that the log would take until the archive answers could lie at offsets that are archived already."""
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    assert rig.partition.held_back is None
    if certain.startswith("the bucket"):
        rig.comparisons.second_timeline(certain)
    else:
        rig.comparisons.compare(rig.archive, certain, hold=True)
    assert rig.partition.held_back
    rig.answer(DELETED)
    assert rig.partition.held_back is None


def test_an_epoch_that_was_raised_for_an_earlier_leadership_leaves_the_present_archive_alone(rig):
    """It is not being compared: an archive that was begun anew would wait for ever for a comparison to end."""
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    rig.answer(OTHER)
    _, done = rig.raised.pop()
    rig.comparisons.forget(rig.unified)
    rig.lead("third")
    done()
    assert rig.calls == ["first comparing"]


def test_producer_ids_are_skipped_while_every_log_is_being_compared(rig):
    """Each log lacks its checkpoint and is compared at the start, when
    the bucket shows a start that is unknown here.
    """
    rig.comparisons.begin(rig.archive, None, Led.LOST)
    rig.comparisons.second_timeline("the bucket knows another start")
    assert rig.skips


def test_producer_ids_are_skipped_without_any_archive(rig):
    """Records of topics without archives went back as well, and their producers kept their ids."""
    rig.archives.clear()
    rig.comparisons.second_timeline("the bucket knows another start")
    assert rig.skips


@pytest.mark.parametrize("led", [Led.LOST, Led.OPENED, Led.RECONFIGURED])
def test_a_start_without_a_checkpoint_meets_another_timeline(rig, led):
    """It lacks something anyway, and nothing says yet that the directory went back: the bucket does."""
    rig.comparisons.begin(rig.archive, None, led)
    assert isinstance(rig.queue[0][0], commands.Claim)
    rig.answer(OTHER)
    assert len(rig.raised) == 1
    assert rig.skips, "the metadata log went back with the rest of the disk, and would give out its producer ids again"


def test_a_leader_of_an_unclean_election_is_compared_whatever_its_checkpoint_says(rig):
    """It was written while this broker followed another one, which has archived more since; nothing is served before."""
    state = RemoteLogState(0, rig.unified.log.log_end_offset - 1, 100)
    rig.comparisons.begin(rig.archive, state, Led.OPENED)
    assert rig.queue == []
    rig.comparisons.begin(rig.archive, state, Led.UNCLEAN)
    assert isinstance(rig.queue[0][0], commands.Claim)
    assert rig.partition.held_back


def test_transactional_producers_are_fenced_whenever_the_directory_is_known_to_have_gone_back(rig):
    """Part of a transaction that is under way may be lost; a mere doubt fences no producer."""
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    assert not rig.retired
    rig.answer(OTHER)
    assert rig.retired
    rig.retired.clear()
    rig.comparisons.second_timeline("the bucket knows another start")
    assert rig.retired


def test_a_doubt_of_an_earlier_start_fences_producers_again(rig):
    """That start may have ended before they were."""
    rig.suspect = True
    rig.comparisons.begin(rig.archive, None, Led.OPENED)
    assert rig.retired


def test_transactions_are_judged_when_the_last_comparison_has_ended(rig):
    """Logs speak for each other, and each may still be replaced by its archive."""
    judged = []
    rig.comparisons._ports.transactions.judge = lambda unified, _: judged.append(unified)
    other = rig.unified
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    rig.unified = Unified(**vars(other))
    rig.comparisons.compare(rig.lead("other"), "longer", hold=False)
    rig.answer(DELETED)
    assert judged == []
    rig.answer(DELETED)
    assert judged == [other, rig.unified]


def test_transactions_are_judged_when_the_last_comparison_is_given_up(rig):
    """Its partition is led no longer."""
    judged = []
    rig.comparisons._ports.transactions.judge = lambda unified, _: judged.append(unified)
    other = rig.unified
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    rig.unified = Unified(**vars(other))
    rig.comparisons.compare(rig.lead("other"), "longer", hold=False)
    rig.answer(DELETED)
    rig.comparisons.forget(rig.unified)
    assert judged == [other]


@pytest.mark.parametrize(("led", "is_compared"), [(Led.UNCLEAN, True), (Led.OPENED, False), (Led.TAKEN_OVER, False)])
def test_an_unclean_leader_is_compared_whatever_it_knew_of_its_archive(rig, led, is_compared):
    """Others have led since it knew that: its log may end above what was archived then, and part from it all the same."""
    rig.comparisons.begin(rig.archive, RemoteLogState(0, 5, 1), led)
    assert bool(rig.queue) is is_compared
    assert bool(rig.partition.held_back) is is_compared


def test_a_mere_doubt_of_an_earlier_start_holds_nothing_and_fences_no_producer(rig):
    """A kill may come while the two are compared: nothing went back in time for that."""
    rig.doubted = True
    rig.comparisons.begin(rig.archive, RemoteLogState(0, 5, 1), Led.OPENED)
    assert len(rig.queue) == 1
    assert (rig.partition.held_back, rig.retired) == (None, [])


def test_a_doubt_is_written_down_as_what_it_is(rig):
    """The next start has to know whether it is certain."""
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    assert rig.notes == ["doubt"]
    rig.answer(DELETED)
    rig.comparisons.compare(rig.archive, "another run", hold=True)
    assert rig.notes == ["doubt", "certain"]


def test_a_doubt_that_has_proved_right_is_written_down_before_the_proof_goes(rig):
    """The claim under the raised epoch replaces it; a disk that is full for a while makes it wait."""
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    rig.disk_takes = False
    rig.answer(OTHER)
    assert (rig.notes, rig.raised, bool(rig.retired)) == (["doubt"], [], True)
    rig.disk_takes = True
    rig.timers.pop()()
    assert rig.notes == ["doubt", "certain"]
    assert [above for above, _ in rig.raised] == [7]


def test_a_doubt_that_has_proved_right_is_dropped_with_its_comparison(rig):
    """A partition that is led no longer has its epoch raised by its next leader."""
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    rig.disk_takes = False
    rig.answer(OTHER)
    rig.comparisons.forget(rig.unified)
    rig.disk_takes = True
    rig.timers.pop()()
    assert (rig.notes, rig.raised, rig.timers) == (["doubt"], [], [])


def test_settled_doubts_leave_the_disk_soon_and_together(rig):
    """A kill in the minute until the next checkpoint would find them."""
    for _ in range(2):
        rig.comparisons.compare(rig.archive, "longer", hold=False)
        rig.answer(DELETED)
    (store,) = rig.timers
    store()
    assert rig.calls[-3:] == ["first compared", "clear", "write"]
    rig.comparisons.compare(rig.archive, "longer", hold=False)
    rig.answer(DELETED)
    rig.archives.clear()  # the broker has stopped: another may use the directory
    rig.timers.pop()()
    assert rig.calls[-1] == "clear"


def test_a_partition_whose_epoch_has_to_rise_is_named_with_the_refusal_and_the_way_out(rig):
    """It is held back meanwhile, perhaps for long, and the operator asks why."""

    def waits_for():
        return [one.waits_for for _, one in rig.comparisons.waiting()]

    rig.disk_takes = False
    rig.comparisons.begin(rig.archive, RemoteLogState(0, 50, 3), Led.OPENED)
    rig.answer(OTHER)
    assert rig.partition.held_back
    assert "its disk takes no note" in waits_for()[0]
    rig.disk_takes = True
    rig.timers.pop()()
    (above, done), *_ = rig.raised
    rig.refuse("NOT_CONTROLLER")
    (why,) = waits_for()
    for part in (f"above {above}", "refuses: NOT_CONTROLLER", "move its leader"):
        assert part in why
    done()
    assert waits_for() == []


@pytest.mark.parametrize("noticed", ["at the start", "while it ran"])
def test_a_comparison_that_a_lost_leadership_ends_is_owed_by_the_next_one(rig, noticed):
    """A replica that led, and leads again before it has copied anything, is no more complete than it was."""
    if noticed == "at the start":
        rig.comparisons.begin(rig.archive, RemoteLogState(0, 50, 3), Led.OPENED)
    else:
        rig.comparisons.compare(rig.archive, "longer", hold=False)
        rig.comparisons.compare(rig.archive, "other", hold=True)
    assert rig.partition.held_back
    rig.comparisons.forget(rig.unified)
    rig.comparisons.begin(rig.lead("again"), None, Led.TAKEN_OVER)
    assert rig.partition.held_back
    rig.queue.pop(0)  # of the comparison that has ended
    rig.answer(DELETED)
    assert not rig.partition.held_back
    rig.comparisons.forget(rig.unified)
    rig.comparisons.begin(rig.lead("third"), None, Led.TAKEN_OVER)
    assert not rig.comparisons.running
