"""``python -m stratalog.spark COMMAND``: the commands of ``cli/spark``, for executors and machines that have only Spark."""

from __future__ import annotations

from stratalog.cli.spark.main import main

if __name__ == "__main__":
    main()
