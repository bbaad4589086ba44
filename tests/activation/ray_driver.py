"""A Ray driver: one actor on each node imports the targets and answers. Its argument is JSON (see `main`)."""

import json
import logging
import os
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


class Worker:
    """As vLLM's worker: it is told variables after its start, and imports the model runner after that."""

    def update_environment_variables(self, variables):
        """As vLLM's worker_base does."""
        os.environ.update(variables)

    def look(self, diagnosis):
        """What shadow_marker answers, the node, and what the diagnosis in the docs says."""
        import shadow_marker

        names = {}
        exec(diagnosis, names)
        found = shadow_marker.answer()
        return {**found, "node": ray.get_runtime_context().get_node_id(), "diagnosis": names["hook_route"]()}


def main():
    """Arguments: `address`, `runtime_env`, `variables` that vLLM would copy, `diagnosis` as Python text."""
    asked = json.loads(sys.argv[1])
    ray.init(asked["address"], runtime_env=asked["runtime_env"], logging_level=logging.ERROR, log_to_driver=True)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    placed = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    actors = [ray.remote(Worker).options(num_cpus=0, scheduling_strategy=each).remote() for each in placed]
    ray.get([actor.update_environment_variables.remote(asked["variables"]) for actor in actors])
    answers = ray.get([actor.look.remote(asked["diagnosis"]) for actor in actors])
    sys.stdout.write(json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
