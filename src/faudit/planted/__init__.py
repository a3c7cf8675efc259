"""Planted faults: small networks whose label follows from how they were built, to test the protocol itself on."""
