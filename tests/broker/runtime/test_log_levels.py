"""Levels of loggers under Kafka's names."""

import logging

import pytest

from stratalog.broker.runtime.log_levels import ROOT, alter_levels, levels
from stratalog.metadata.controller.controller import ConfigChange, ConfigOperation
from stratalog.wire.errors import ErrorCode, KafkaError

SET, DELETE, APPEND = ConfigOperation.SET, ConfigOperation.DELETE, ConfigOperation.APPEND


@pytest.fixture
def logger():
    """A logger of the test's own below another; all levels are put back."""
    root = logging.root.level
    above, one = logging.getLogger("levels_test"), logging.getLogger("levels_test.one")
    yield one
    logging.root.setLevel(root)
    for each in (above, one):
        each.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("level", "number"),
    [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)],
)
def test_kafkas_levels_are_pythons(logger, level, number):
    """Each is listed as it was set."""
    alter_levels([ConfigChange(logger.name, SET, level)])
    assert logger.level == number
    assert levels()[logger.name] == level


def test_a_logger_without_a_level_has_that_of_the_one_above(logger):
    """Root in the end; deleting a level gives it back."""
    alter_levels([ConfigChange(ROOT, SET, "ERROR"), ConfigChange(logger.name, SET, "DEBUG")])
    found = levels()
    assert (found[ROOT], found["levels_test"], found[logger.name]) == ("ERROR", "ERROR", "DEBUG")
    alter_levels([ConfigChange("levels_test", SET, "INFO"), ConfigChange(logger.name, DELETE, None)])
    assert levels()[logger.name] == "INFO"


def test_a_level_between_two_is_shown_as_the_higher(logger):
    """Python allows it and Kafka has no name for it."""
    for number, level in ((1, "TRACE"), (15, "INFO"), (60, "FATAL")):
        logger.setLevel(number)
        assert levels()[logger.name] == level


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        (ConfigChange("no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (ConfigChange(ROOT, SET, "LOUD"), ErrorCode.INVALID_CONFIG, "Cannot set the log level of root to LOUD"),
        (ConfigChange(ROOT, SET, None), ErrorCode.INVALID_CONFIG, "Cannot set the log level of root to None"),
        (ConfigChange(ROOT, DELETE, None), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger"),
        (ConfigChange(ROOT, APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        (ConfigChange(ROOT, 9, "INFO"), ErrorCode.INVALID_REQUEST, "Unknown operation type 9"),
    ],
)
def test_a_change_that_cannot_be_made_stops_all(logger, change, code, sentence):
    """The others of the request are not made either."""
    with pytest.raises(KafkaError, match=sentence) as caught:
        alter_levels([ConfigChange(logger.name, SET, "FATAL"), change])
    assert caught.value.code is code
    assert logger.level == logging.NOTSET


def test_validation_changes_nothing(logger):
    """A level that could be set is not set."""
    alter_levels([ConfigChange(logger.name, SET, "FATAL")], validate_only=True)
    assert logger.level == logging.NOTSET
