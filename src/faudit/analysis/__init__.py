"""Analysis of many runs from Python: the collection of a store's runs, and comparisons between groups of them."""
