"""A whole broker on virtual time: its clients, workers, disk, network and bucket, all drawn from one seed."""
