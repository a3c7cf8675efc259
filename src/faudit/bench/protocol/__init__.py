"""Planted networks: healthy or broken by construction, so that the protocol can be tested on them."""
