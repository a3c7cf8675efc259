"""The audit of models that were not built with faudit."""
