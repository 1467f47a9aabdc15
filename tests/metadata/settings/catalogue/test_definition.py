"""Rows of settings and the tables made from them."""

import pytest

from stratalog.metadata.settings.catalogue.definition import INT, LIST, PASSWORD, WIDE, Synonym, setting, table
from stratalog.metadata.settings.catalogue.types import ConfigError, Password
from stratalog.metadata.settings.catalogue.validators import at_least


def test_a_row_parses_and_checks_in_one_step():
    """Type and bounds are both enforced."""
    row = setting("n", INT, 3, at_least(1), doc="n")
    assert row.parse(" 7 ") == 7
    with pytest.raises(ConfigError, match="at least 1"):
        row.parse("0")


def test_a_row_knows_whether_it_has_effect_and_can_change():
    """`why_not` and the update mode answer both."""
    row = setting("n", INT, 3, doc="n", mode=WIDE, unused="because")
    assert (row.has_effect, row.why_not, row.is_dynamic) == (False, "because", True)
    assert setting("m", LIST, (), doc="m").has_effect


def test_only_passwords_are_sensitive():
    """A password's value is hidden by its type alone."""
    row = setting("p", PASSWORD, None, doc="p")
    assert row.is_sensitive
    assert row.parse("x") == Password("x")


def test_a_synonym_converts_numbers_and_leaves_the_rest():
    """Hours become milliseconds, words stay."""
    synonym = Synonym("log.roll.hours", lambda hours: hours * 3_600_000)
    assert synonym.value_of(2) == 7_200_000
    assert synonym.value_of("x") == "x"


def test_two_rows_with_one_name_are_refused():
    """A table is a map, nothing is lost silently."""
    row = setting("n", INT, 3, doc="n")
    with pytest.raises(ConfigError, match="defined twice"):
        table((row,), (row,))


def test_a_default_out_of_its_own_bounds_is_refused():
    """A table of settings cannot be made with a wrong default."""
    with pytest.raises(ConfigError, match="at least 5"):
        table((setting("n", INT, 3, at_least(5), doc="n"),))
