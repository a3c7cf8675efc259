"""Train several runs as one computation: their weights are stacked, and every operation serves all of them."""
