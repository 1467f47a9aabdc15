"""librdkafka's own tests in C that need a broker, but for those of share groups and of more than one broker.

Each run takes about a quarter of an hour and little of the processor: the tests wait for sessions and time-outs.
"""

from dataclasses import dataclass

import pytest

from tests.conformance.conftest import BUILD
from tests.conformance.librdkafka import Ended, built_suite, run_suite

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(3600)]


@dataclass(frozen=True)
class Run:
    """Some tests of the suite, and how many of them must pass."""

    name: str
    scenario: str
    count: int
    only: tuple[str, ...] = ()
    quick: bool = False


RUNS = (
    Run("quick", "default", 90, quick=True),
    Run(
        "what quick leaves out",
        "default",
        12,
        ("0018", "0019", "0026", "0045", "0050", "0061", "0089", "0102", "0122", "0132"),
    ),
    Run("topics are not made at their first use", "noautocreate", 4),
)
"""The counts are those of 2.15.1. In quick mode, the second run's tests do nothing."""
SETTINGS = {
    "advertised_listeners": "PLAINTEXT://127.0.0.1:0",
    "allow_everyone_if_no_acl_found": "true",
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "num_partitions": "4",
    "group_initial_rebalance_delay_ms": "200",
    "group_min_session_timeout_ms": "1000",
}
"""Rules hold for everybody: some tests forbid a topic to all and are refused then. One starts two members of a group at
once, and they must be in its first generation together."""


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: run.name)
def ended(request, start_shared_node) -> tuple[Run, Ended]:
    """Each run on a broker of its own."""
    run: Run = request.param
    broker = start_shared_node(**SETTINGS, auto_create_topics_enable=str(run.scenario == "default").lower())
    done = run_suite(built_suite(BUILD), broker.address, BUILD / "librdkafka", run.scenario, run.only, quick=run.quick)
    return run, done


def test_none_of_them_fails(ended):
    """Each failure is shown with its reason; the whole output is in ``build/conformance/librdkafka``."""
    _, done = ended
    assert done.failed == {}


def test_all_of_them_were_run(ended):
    """A run that ended early, or left tests out, is no success."""
    run, done = ended
    assert len(done.passed) >= run.count


def test_a_refused_batch_names_its_records(ended):
    """KIP-467: the one of its tests that looks at the records and reasons of a refusal is among them."""
    run, done = ended
    assert run.name != "quick" or "0011_produce_batch" in done.passed
