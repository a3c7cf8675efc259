"""faudit: train with backprop and its alternatives, and measure whether the credit signal still means anything."""

__version__ = "0.1.0"
