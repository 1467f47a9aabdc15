"""The ground under the broker, in virtual time: loop, processes, threads, disk, network, bucket."""
