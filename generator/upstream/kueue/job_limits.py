"""The result of `largest`: the largest job of a queue on a runtime, and the limit that a larger job exceeds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NO_LIMIT = 2**31 - 1
"""The largest `numNodes` that the API server accepts: an int32."""


class Limit(StrEnum):
    """The kind of limit that a larger job would exceed.

    `NOTHING`: no limit. `QUOTA`: the queue never gets enough quota. `NODE`: one pod requests more than a node has.
    `NODES`: all nodes of the flavor together lack room. `PLACE`: no flavor matches its pods, or the required topology
    domain lacks room. `LIMIT_RANGE`: a LimitRange rejects its pods. `SIZE`: the runtime has one size only. `POLICY`: an
    admission policy rejects a larger job. `QUEUE`: the queue admits no job. `UNKNOWN`: mpigen cannot simulate the
    queue.
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
    """The largest `numNodes` of a TrainJob on a runtime that a ClusterQueue admits while the queue has no other job.

    `owned`, `reclaimable` and `idle` are None if they are unknown, and `NO_LIMIT` if no limit applies.

    Attributes:
        namespace: a namespace with a LocalQueue of the ClusterQueue.
        kind: ClusterTrainingRuntime, or TrainingRuntime of the namespace.
        owned: nodes that Kueue always admits without preemption, whatever the other queues use. With
            `whenCanPreempt: MayStopSearch` Kueue may preempt in one flavor before it tries the next.
        reclaimable: nodes that Kueue always admits with the preemption that the policy of the queue allows.
        idle: nodes that Kueue admits while all other queues are idle. `reason` states if the number may be smaller,
            because all pods must be in one topology domain and no file has the Nodes.
        limit: the kind of limit that a job with more than `idle` nodes exceeds.
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
