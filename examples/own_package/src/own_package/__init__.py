"""A rule, a net and a dataset outside faudit."""
