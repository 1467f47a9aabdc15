"""Python imports this by itself where PYTHONPATH names this folder: workers of a node share the seam of their node."""

import os

if "FAULTS_SEAM" in os.environ:
    from bench.faults.seam import plant

    plant(os.environ["FAULTS_SEAM"])
