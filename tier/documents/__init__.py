"""Names of objects, and the JSON of the bucket."""
