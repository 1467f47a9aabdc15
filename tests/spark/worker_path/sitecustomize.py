"""Spark shows its Python workers PySpark in an archive without bytecode, which each of them would compile.

The same PySpark is installed beside it: without the archive on the path the hundreds of workers of the tests begin sooner.
"""

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
