"""The largest job of a queue on a runtime, and the limit that keeps it from being larger: the result of `largest`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NO_LIMIT = 2**31 - 1
"""The largest `numNodes` that the API server accepts: an int32."""


class Limit(StrEnum):
    """The limit that keeps a job from being larger.

    `NODE`: one pod requests more than a node has. `NODES`: the number of nodes. `PLACE`: no flavor matches its pods, or
    the required topology domain has no room. `SIZE`: the runtime has one size only. `POLICY`: the API server rejects a
    larger job. `QUEUE`: the queue admits no job.
    """

    NOTHING = "nothing"
    QUOTA = "quota"
    NODE = "node"
    NODES = "nodes"
    PLACE = "place"
    LIMIT_RANGE = "limit range"
    SIZE = "size"
    POLICY = "policy"
    QUEUE = "queue"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest `numNodes` of a TrainJob that a ClusterQueue admits while it has no other job.

    A number is None if it is unknown, and `NO_LIMIT` without a limit.

    Attributes:
        namespace: a namespace with a LocalQueue of the ClusterQueue.
        kind: ClusterTrainingRuntime, or TrainingRuntime of the namespace.
        owned: nodes that Kueue always admits without preemption, whatever the other queues use. With
            `whenCanPreempt: MayStopSearch` Kueue may preempt in one flavor before it tries the next.
        reclaimable: nodes that Kueue always admits with the preemption that the policy of the queue allows.
        idle: nodes that Kueue admits while all other queues are idle. `reason` states if the number may be smaller,
            because all pods must be in one topology domain and no file has the Nodes.
        limit: the kind of limit that `idle` has.
        reason: why `idle` is not larger; or why all three numbers are unknown.
        unknown: why `reclaimable` is unknown, or both `owned` and `reclaimable`.
    """

    queue: str
    namespace: str
    runtime: str
    kind: str
    owned: int | None
    reclaimable: int | None
    idle: int | None
    limit: Limit
    reason: str
    unknown: str = ""
