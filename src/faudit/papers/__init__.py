"""Published papers: their runs, claims and file formats."""
