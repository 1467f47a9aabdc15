"""``python -m bench.faults.node node-1.properties``: a node whose disk and clock obey the page beside its properties file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.faults.seam import plant, seam_path
from stratalog.cli.main import main

if __name__ == "__main__":
    properties = sys.argv[1]
    os.environ["FAULTS_SEAM"] = seam_path(properties)
    os.environ["PYTHONPATH"] = f"{Path(__file__).parent / 'in_workers'}:{os.environ.get('PYTHONPATH', '')}"
    plant(os.environ["FAULTS_SEAM"])
    sys.argv[1:] = ["serve", "--config", properties]
    main()
