"""Names of topics."""

import pytest

from stratalog.metadata.image.topic_names import check_topic_name, collision_key, is_internal
from stratalog.wire.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_legal_names_are_accepted(name):
    """Letters, digits, dot, underscore and hyphen, up to 249 of them."""
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("größe", "'größe' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\x00", "'a\x00' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_illegal_names_are_refused_with_kafkas_sentence(name, why):
    """INVALID_TOPIC_EXCEPTION with the reason; no name can leave its directory."""
    with pytest.raises(KafkaError) as caught:
        check_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert caught.value.message == f"Topic name is invalid: {why}"


def test_names_that_differ_in_dots_and_underscores_only_collide():
    """Their metrics would have one name."""
    assert collision_key("a.b_c") == collision_key("a_b.c") == "a_b_c"
    assert collision_key("abc") is None


def test_the_clusters_own_topics_are_internal():
    """Clients hide them; a user's topic with two underscores is not one of them."""
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("__mine")
