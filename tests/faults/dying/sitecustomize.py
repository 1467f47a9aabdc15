"""Ends a process with SIGKILL when it comes to a named point for the n-th time, once per marker file.

Python imports this by itself in every process whose PYTHONPATH names this folder: in a broker, and in its workers.
``DIES_AT`` is ``module:owner:function:when:count:marker``; the owner is a class, or empty for the module.
"""

import functools
import importlib
import itertools
import os
import signal
import sys


def _die(marker):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(module_name, owner_name, name, when, count, marker):
    importlib.import_module("stratalog.tier.work")
    module = importlib.import_module(module_name)
    owner = getattr(module, owner_name) if owner_name else module
    function = getattr(owner, name)
    calls = itertools.count(1)

    @functools.wraps(function)
    def dying(*args, **kwargs):
        if when == "before" and next(calls) == int(count):
            _die(marker)
        result = function(*args, **kwargs)
        if when == "after" and next(calls) == int(count):
            _die(marker)
        return result

    setattr(owner, name, dying)
    for other in [owner, *(one for key, one in sys.modules.items() if key.startswith("stratalog"))]:
        if getattr(other, name, None) is function:  # imported by its name
            setattr(other, name, dying)
        for table in list(vars(other).values()):  # or listed in a table
            if isinstance(table, dict):
                table.update({key: dying for key, value in table.items() if value is function})


if "DIES_AT" in os.environ:
    _arm(*os.environ["DIES_AT"].split(":"))
