"""Tests of hot/storage/removed_log.py."""

import pytest

from stratalog.hot.storage.filesystem import Filesystem
from stratalog.hot.storage.removed_log import NoFiles, RemovedLog


@pytest.mark.parametrize("operation", [name for name in vars(Filesystem) if not name.startswith("_")])
def test_every_operation_on_names_is_refused_with_the_reason(operation):
    """As an error of its own, so that it is not taken for one of the disk."""
    with pytest.raises(RemovedLog, match=rf"the log of t-0 was removed \({operation}\)"):
        getattr(NoFiles("the log of t-0 was removed"), operation)("t-0/00000000000000000000.log")
