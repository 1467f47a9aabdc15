"""Commands of the broker to the archive's workers, and their answers."""

from __future__ import annotations

import pickle
import typing

import pytest
from msgspec import structs

from stratalog.tier.messages import commands
from stratalog.tier.messages.commands import ChunkFill, Command, FilledChunk, Report
from stratalog.tier.work.work import _EXECUTORS

COMMANDS = typing.get_args(Command)
REPORTS = typing.get_args(Report)
PARTS = (ChunkFill, FilledChunk)


def blank(kind):
    """One of this kind, with something else in every field; nothing is looked at."""
    return kind(*(f"{kind.__name__}.{each.name}" for each in structs.fields(kind)))


def test_every_class_is_a_command_or_a_report_or_part_of_one():
    """The unions, by which mypy finds a forgotten one, are complete."""
    classes = {getattr(commands, name) for name in commands.__all__} - {Command, Report}
    assert classes == {*COMMANDS, *REPORTS, *PARTS}
    assert not set(COMMANDS) & set(REPORTS)


@pytest.mark.parametrize("kind", [*COMMANDS, *REPORTS, *PARTS], ids=lambda kind: kind.__name__)
def test_it_comes_out_of_a_pipe_as_it_went_in(kind):
    """They travel between processes, and a journal of them does not change afterwards."""
    one = blank(kind)
    assert pickle.loads(pickle.dumps(one)) == one
    name = structs.fields(kind)[0].name
    with pytest.raises(AttributeError, match="immutable"):
        setattr(one, name, None)


def test_a_command_names_what_it_is_about():
    """A partition, a topic, a key, a directory, or a broker and its bucket: workers keep no state between two of them."""
    for kind in COMMANDS:
        names = {each.name for each in structs.fields(kind)}
        assert names & {"partition", "key", "request", "directory", "topic_id", "broker"}, kind


def test_workers_know_what_to_do_with_each():
    """There is an executor for every command, and for nothing else."""
    assert set(_EXECUTORS) == set(COMMANDS)
