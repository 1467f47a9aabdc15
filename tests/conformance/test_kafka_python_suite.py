"""kafka-python's own integration tests: Apache Kafka 4.3 passes 55 of the 56 and skips one; so do we."""

import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(900)]

COUNT = 56


def test_none_of_them_fails(kafka_python_suite):
    """Each failure is printed with its reason."""
    assert kafka_python_suite.failed == {}


def test_all_of_them_were_run(judged, kafka_python_suite):
    """A suite that could not be collected is no success; one test is skipped with any broker of today."""
    assert len(kafka_python_suite.passed) == COUNT - 1 - len(judged.left_out)
    assert len(kafka_python_suite.skipped) == 1


def test_nodes_were_killed_meanwhile(judged, kafka_python_suite):
    """A suite that ended before the first kill has shown nothing of it."""
    assert judged.killed is None or len(judged.killed) >= 3
