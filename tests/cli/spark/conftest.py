"""The archives and the session of the tests of Spark."""

from tests.spark.conftest import archive_in, batches, growing_archive, rewrite_rig, rig, s3_endpoint, spark

__all__ = ["archive_in", "batches", "growing_archive", "rewrite_rig", "rig", "s3_endpoint", "spark"]
