"""Models and loops that are not ours."""
