"""Many runs at once: which are missing, who makes them, and how far they are."""
