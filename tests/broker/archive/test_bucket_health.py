"""The conclusions from the reports that come anyway, and when requests that failed are sent again."""

import pytest

from stratalog.broker.archive.bucket_health import ASK_MS, BucketHealth, Resumption, ResumptionPorts
from stratalog.broker.workers.io_worker import Executed
from stratalog.broker.workers.workers import WorkerLost
from stratalog.tier.messages import commands

FAILED = commands.FailedReport("connection refused", retriable=True)
SEEN = Executed(commands.BucketSeen("b", cluster_known=True, start_id="s"))
REFUSED = Executed(FAILED)


def test_a_bucket_is_neither_up_nor_down_before_the_first_report():
    """A new health knows no answer, no failure and no error."""
    health = BucketHealth()
    assert (health.answered_ms, health.failing_since_ms, health.last_error) == (None, None, "")


def test_it_fails_since_the_first_failure_and_until_any_answer():
    """An object that is missing is an answer, too; what was said last stays readable."""
    health = BucketHealth()
    health.note(FAILED, 10)
    health.note(commands.FailedReport("timed out", retriable=True), 20)
    assert (health.failing_since_ms, health.last_error) == (10, "timed out")
    health.note(commands.MissingReport("k", "no k"), 30)
    assert (health.answered_ms, health.failing_since_ms, health.last_error) == (30, None, "timed out")
    health.note(FAILED, 40)
    assert health.failing_since_ms == 40


def test_a_local_failure_says_nothing_about_the_bucket():
    """A segment that DeleteRecords has taken while it was on its way up, or a disk of the cache that is full."""
    health = BucketHealth()
    health.note(commands.FailedReport("No such file: 0.log", retriable=True, local=True), 10)
    assert (health.answered_ms, health.failing_since_ms, health.last_error) == (None, None, "")
    health.note(FAILED, 20)
    health.note(commands.FailedReport("No such file: 0.log", retriable=True, local=True), 30)
    assert (health.failing_since_ms, health.last_error) == (20, "connection refused")


def test_a_read_back_is_remembered():
    """Other answers do not count as one."""
    health = BucketHealth()
    health.note(commands.VerifiedUpTo(5), 10)
    health.note(commands.MovedReport(3, "moved"), 20)
    assert (health.read_back_ms, health.answered_ms) == (10, 20)


def test_it_fails_since_what_failed_was_asked_for():
    """Or since the last answer, if that came later."""
    health = BucketHealth()
    health.note(FAILED, 90, asked_ms=20)
    assert health.failing_since_ms == 20
    health.note(commands.MissingReport("k", "no k"), 100, asked_ms=30)
    health.note(FAILED, 190, asked_ms=40)
    assert health.failing_since_ms == 100


def test_the_state_is_known_before_a_command_has_failed():
    """A bucket that has left every request unanswered for seconds does not answer."""
    health = BucketHealth()
    assert health.state(10_000, 2.9) == ("unused", None, "")
    assert health.state(10_000, 5.0) == ("failing", 5_000, "no answer for 5 s; it is waited for")
    health.note(commands.MovedReport(3, "moved"), 10_000)
    assert health.state(10_000, 0.0) == ("ok", None, "")
    health.note(FAILED, 20_000, asked_ms=15_000)
    assert health.state(21_000, 0.0) == ("failing", 15_000, "connection refused")


def test_a_look_that_failed_ends_with_one_that_is_answered():
    """A follower looks at the bucket when it starts, and may then ask for nothing: it went on as failing for ever."""
    health = BucketHealth()
    for at in (10, 20):
        health.note(FAILED, at, is_look=True)
    health.looked(30)
    assert (health.answered_ms, health.failing_since_ms) == (30, None)
    health.note(FAILED, 40)
    health.looked(50)
    assert health.failing_since_ms == 40


@pytest.mark.parametrize("looks_too", [False, True])
def test_a_failure_that_is_not_repeated_ends_some_time_after_the_bucket_answers(looks_too):
    """The client that met it has left. A store may answer looks and refuse the rest: then the rest fails again in time."""
    health = BucketHealth()
    health.note(FAILED, 1_000)
    if looks_too:
        health.note(FAILED, 1_000, is_look=True)
    for at in range(2_000, 121_000, 2_000):
        health.looked(at)
        assert health.failing_since_ms == 1_000
    health.looked(121_000)
    assert (health.answered_ms, health.failing_since_ms) == (121_000, None)
    health.looked(130_000)
    assert health.answered_ms == 121_000


class Rig:
    """Looks four times a second."""

    def __init__(self):
        self.in_contact, self.failing, self.closed = True, False, False
        self.asked, self.looks = [], []
        self.now_ms = 0
        self.one = Resumption(
            ResumptionPorts(
                in_contact=lambda: self.in_contact,
                is_failing=lambda: self.failing,
                looked=lambda: self.looks.append(self.now_ms),
                submit=self.submit,
                command=lambda: commands.LookAtBucket("c", "1"),
            )
        )

    def submit(self, command, answered):
        if self.closed:
            raise WorkerLost("the workers are closed")
        assert isinstance(command, commands.LookAtBucket)
        self.asked.append(answered)

    def wait(self, ms, outcome=None):
        """Let time pass; questions are answered with ``outcome``. How often what failed was sent again."""
        before = self.one.count
        for _ in range(ms // 250):
            self.now_ms += 250
            self.one.look(self.now_ms)
            while outcome is not None and self.asked:
                self.asked.pop()(outcome, None)
        return self.one.count - before


@pytest.fixture
def rig():
    return Rig()


def test_each_answer_to_the_question_is_heard(rig):
    """A refusal is none."""
    rig.failing = True
    rig.wait(5_000, REFUSED)
    assert rig.looks == []
    rig.wait(2_000, SEEN)
    assert len(rig.looks) == 1


def test_while_all_is_well_no_question_is_sent(rig):
    """A bucket that answers costs no request."""
    assert rig.wait(600_000, SEEN) == 0
    assert rig.asked == []


@pytest.mark.parametrize("out_ms", [1_000, 600_000])
def test_contact_that_is_back_resumes_at_once(rig, out_ms):
    """It does not matter how long it was lost."""
    rig.in_contact = False
    assert rig.wait(out_ms) == 0
    rig.in_contact = True
    assert rig.wait(250) == 1
    assert rig.wait(600_000) == 0


@pytest.mark.parametrize("out_ms", [5_000, 600_000])
def test_a_bucket_that_is_back_resumes_within_seconds(rig, out_ms):
    """It is asked every two seconds while requests fail, for those that failed may wait for much longer."""
    rig.failing = True
    assert rig.wait(out_ms, REFUSED) == 0
    assert rig.wait(ASK_MS + 500, SEEN) >= 1


def test_any_answer_resumes(rig):
    """Other requests find out as well that the bucket answers."""
    rig.failing = True
    rig.wait(1_000)
    rig.failing = False
    assert rig.wait(250) == 1


def test_one_question_at_a_time(rig):
    """A store may be silent for minutes."""
    rig.failing = True
    rig.wait(600_000)
    assert len(rig.asked) == 1


def test_a_worker_that_dies_is_asked_again(rig):
    """The question failed with it."""
    rig.failing = True
    rig.wait(ASK_MS + 500)
    rig.asked.pop()(None, WorkerLost("it died"))
    assert rig.wait(ASK_MS + 500, SEEN) == 1


def test_a_bucket_that_answers_and_refuses_the_rest_is_sent_it_less_and_less_often(rig):
    """Where reads pass and writes do not, retries come as rarely in the end as without all this."""
    rig.failing = True
    assert 4 <= rig.wait(60_000, SEEN) <= 7
    assert rig.wait(600_000, SEEN) <= 21
    rig.failing = False
    rig.wait(120_000)
    rig.failing = True
    assert rig.wait(ASK_MS + 500, SEEN) == 1  # after a calm time it is as at first


def test_a_broker_that_closes_asks_nothing(rig):
    """Its worker takes no command any more."""
    rig.failing, rig.closed = True, True
    assert rig.wait(10_000) == 0
