"""A whole cluster on virtual time: controllers, brokers and administrators, each node the shipped one, from one seed."""
