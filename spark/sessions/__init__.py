"""A Spark session that fits this source, and the doctor that says what is missing."""
