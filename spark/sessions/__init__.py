"""A Spark session that fits this source, and the doctor that names missing parts."""
