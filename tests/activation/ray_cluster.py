"""A Ray cluster of two nodes on this machine, started as an administrator would: without the user's environment.

It prints the address, and stops when its standard input ends.
"""

import sys

from ray.cluster_utils import Cluster

NODES = 2


def main():
    """Start, say where, wait, stop."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    sys.stdout.write(f"address {cluster.address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
