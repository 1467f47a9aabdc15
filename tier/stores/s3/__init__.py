"""The store that speaks S3."""
