from __future__ import annotations

import typing

from stratalog.tier.messages import commands, reports


def test_answers_stand_beside_their_questions():
    """`tier.messages.commands` names every report, so that the broker needs one name for both."""
    names = [kind.__name__ for kind in typing.get_args(reports.Report)]
    assert set(names) <= set(commands.__all__)
    assert all(getattr(commands, name) is getattr(reports, name) for name in names)


def test_every_failure_says_what_it_is_about():
    """In words: the broker logs them as they are."""
    failures = [
        kind for kind in typing.get_args(reports.Report) if kind.__name__ in {"FencedReport", "MovedReport",
        "MissingReport", "CorruptReport", "FailedReport", "DeletedReport"}
    ]  # fmt: skip
    assert len(failures) == 6
    assert all("message" in kind.__struct_fields__ for kind in failures)
