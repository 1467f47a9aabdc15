"""Which topics an expression matches, and what it costs to ask again."""

from types import SimpleNamespace

import pytest

from stratalog.metadata.groups import topic_patterns
from stratalog.metadata.groups.topic_patterns import TopicPatterns, compile_pattern
from stratalog.wire.errors import ErrorCode, KafkaError


def _topics(*names):
    return SimpleNamespace(by_name=dict.fromkeys(names))


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("orders", {"orders"}),
        ("order", set()),
        ("order.*", {"orders", "orders-eu", "order_log"}),
        ("^orders$|x", {"orders", "x"}),
        ("(?i)ORDERS(-eu)?", {"orders", "orders-eu"}),
        (r"\w+", {"orders", "order_log", "x"}),
        ("", set()),
    ],
)
def test_a_pattern_matches_whole_names(pattern, matching):
    """A topic matches if its whole name does, in the syntax of RE2."""
    assert TopicPatterns().matching(pattern, _topics("orders", "orders-eu", "order_log", "x")) == matching


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a**", r"(?=a)b", r"(a)\1", "a{2000}"])
def test_an_unreadable_expression_is_refused_with_the_reason(pattern):
    """An unreadable expression is refused with the reason; so is one that cannot be matched in linear time."""
    with pytest.raises(KafkaError, match=r"is not a valid regular expression: .+") as caught:
        compile_pattern(pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_expression_that_needs_too_much_memory_is_refused():
    """An expression that needs more memory than it is given is refused."""
    with pytest.raises(KafkaError):
        compile_pattern("((a{100}){100}){100}")


def test_an_expression_too_long_for_a_record_is_refused():
    """An expression that no record could hold is refused; one that fits is not."""
    with pytest.raises(KafkaError, match="more than 32767 bytes"):
        compile_pattern("a" * 32_768)
    compile_pattern("a" * 1_000)


def test_an_expression_that_explodes_elsewhere_is_matched_at_once():
    """An expression that makes other engines try every way to cut a name up is answered at once."""
    assert TopicPatterns().matching("(a*)*b", _topics("a" * 200)) == frozenset()


def test_only_new_names_are_looked_at(monkeypatch):
    """Names that were looked at are remembered, those that are gone are forgotten."""
    looked_at = []
    compiled = topic_patterns.compile_pattern("a.*")
    spy = SimpleNamespace(fullmatch=lambda name: looked_at.append(name) or compiled.fullmatch(name))
    monkeypatch.setattr(topic_patterns, "compile_pattern", lambda _pattern: spy)
    patterns = TopicPatterns()
    assert patterns.matching("a.*", _topics("a", "b")) == {"a"}
    assert patterns.matching("a.*", _topics("a", "b", "ac")) == {"a", "ac"}
    assert patterns.matching("a.*", _topics("b", "ac")) == {"ac"}
    assert patterns.matching("a.*", _topics("a", "b", "ac")) == {"a", "ac"}
    assert sorted(looked_at) == ["a", "a", "ac", "b"]


def test_not_all_are_remembered(monkeypatch):
    """The expression that was not asked for longest is forgotten."""
    monkeypatch.setattr(topic_patterns, "_REMEMBERED_MAX", 2)
    patterns = TopicPatterns()
    for pattern in ("a", "b", "a", "c"):
        patterns.matching(pattern, _topics("a", "b", "c"))
    assert list(patterns._known) == ["a", "c"]
