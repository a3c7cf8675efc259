"""Planted networks: their labels follow from how they were built, so the protocol can be tested on them."""
