"""Plants faults into brokers of the tests; Python imports this by itself where PYTHONPATH names this folder.

``DIES_AT`` is ``point:marker``: a process that comes to the point of `sim.points` ends with SIGKILL, once per marker
file; with ``DIES_FIRST`` at its first passing, whatever the number of the point says. ``SMALL``: manifests spill after a few entries, and chunks are copied to the cache from a directory, too.
"""

import os
import signal

if "SMALL" in os.environ:
    from stratalog.tier.manifests import pages as manifest_pages
    from stratalog.tier.reading import fill

    fill._file_beside = lambda *_: None
    manifest_pages.INLINE_MAX, manifest_pages.INLINE_KEPT, manifest_pages.FANOUT = 6, 3, 3

if "DIES_AT" in os.environ:
    from sim.points import trapped

    def _die():
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    name, marker = os.environ["DIES_AT"].split(":", 1)
    armed = trapped(name, _die, nth=1 if "DIES_FIRST" in os.environ else 0)
    armed.__enter__()
