"""Settings of tiering over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.cli.http import http_json
from stratalog.cli.output import NotFoundError
from stratalog.metadata.settings.tiering_advice import TIERING_NAMES
from stratalog.wire.errors import Invalid


@pytest.fixture
def ask(live_broker):
    """One request about a topic's tiering."""

    def run(topic: str, body: object = None, query: str = "") -> dict[str, Any]:
        method = "GET" if body is None else "PATCH"
        return http_json(live_broker.http, method, f"/v1/topics/{topic}/tiering{query}", body)

    return run


@pytest.mark.story
def test_every_setting_is_shown_with_its_source(ask, topic) -> None:
    """All names, typed."""
    answer = ask(topic)
    assert list(answer["settings"]) == list(TIERING_NAMES)
    assert answer["settings"]["remote.storage.enable"] == {"value": False, "source": "DEFAULT_CONFIG"}
    assert (answer["topic"], answer["advice"]) == (topic, [])


def test_settings_are_changed_and_given_back(ask, topic, stratalog) -> None:
    """Texts, numbers and truth values; null is the default."""
    answer = ask(topic, {"remote.storage.enable": True, "local.retention.ms": 3600000, "segment.ms": "60000"})
    assert answer["settings"]["local.retention.ms"] == {"value": 3600000, "source": "DYNAMIC_TOPIC_CONFIG"}
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert described["configs"] == {
        "remote.storage.enable": "true", "local.retention.ms": "3600000", "segment.ms": "60000"
    }  # fmt: skip
    answer = ask(topic, {"segment.ms": None})
    assert answer["settings"]["segment.ms"]["source"] == "DEFAULT_CONFIG"
    stratalog("topic", "delete", topic)


def test_a_change_can_be_tried(ask, topic) -> None:
    """The answer is as if it were made, advice included; nothing is."""
    answer = ask(topic, {"remote.storage.enable": True}, "?validate_only=true")
    assert answer["validate_only"]
    assert answer["settings"]["remote.storage.enable"]["value"] is True
    assert "nothing leaves the local disk" in answer["advice"][0]
    assert ask(topic)["settings"]["remote.storage.enable"]["value"] is False


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"flush.ms": 1}, "'flush.ms' is no setting of tiering"),
        ({"segment.ms": [1]}, "the value of segment.ms is a text, a number"),
        ({"segment.ms": "soon"}, "segment.ms"),
        (
            {"remote.storage.enable": True, "local.retention.ms": 5, "stratalog.upload.lag.ms": 6},
            "Lower stratalog.upload.lag.ms, or raise local.retention.ms",
        ),
        ([], "the body is a JSON object"),
    ],
)
def test_impossible_requests_are_refused(ask, topic, body, words) -> None:
    """In words that say what to do; nothing is changed."""
    with pytest.raises(Invalid) as refused:
        ask(topic, body)
    assert words in str(refused.value)
    assert {one["source"] for one in ask(topic)["settings"].values()} == {"DEFAULT_CONFIG"}


def test_a_topic_that_is_not_there_is_not_found(ask) -> None:
    """To see and to change."""
    for body in (None, {}):
        with pytest.raises(NotFoundError, match="'absent' does not exist"):
            ask("absent", body)
