"""``stratalog cluster``: what is wrong with a cluster, and where its replicas should be."""
