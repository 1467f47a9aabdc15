"""One log: small parts that each own their state, and `Log`, which wires them."""
