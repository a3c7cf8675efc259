"""A Ray cluster of two nodes on this machine, one processor each; `kill` on stdin kills the second, the end stops all.

    python tests/support/two_nodes.py [PYTHONPATH of the second]        prints the address, then "killed"

A process of its own: what Ray leaves open or warns of is none of pytest's business.
"""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster

MEMORY = 100 * 2**20  # bytes of each object store
SOON = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}


def main() -> None:
    head = {"num_cpus": 1, "object_store_memory": MEMORY, "include_dashboard": False, "_system_config": SOON}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        env_vars = {"PYTHONPATH": sys.argv[1]} if sys.argv[1:] else {}
        second = cluster.add_node(num_cpus=1, object_store_memory=MEMORY, env_vars=env_vars)
        print(cluster.address, flush=True)
        for line in sys.stdin:
            if line.strip() == "kill":
                cluster.remove_node(second, allow_graceful=False)
                print("killed", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
