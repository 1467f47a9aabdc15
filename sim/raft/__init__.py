"""The metadata quorum on virtual time: voters, observers and clients under every fault, all drawn from one seed."""
