"""The pods of a runtime as their init container `prepare` runs in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.config.model.runtimes import Runtime
from generator.images.layer import USERS
from generator.images.tree import Root
from generator.images.walk import User, Walk
from generator.manifests import Manifest
from generator.objects.fields import integer, mapping, mappings, string, string_map
from generator.objects.pods import NODE, PodTemplate, pod_templates
from generator.objects.training import LAUNCHER
from generator.runtimes.image_needs import Need, image_needs

_OF_NAMESPACE = 1_000_000_000
"""The id of a user on OpenShift, which no image has: OpenShift gives each namespace a range of such ids."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The pods of one job of a runtime.

    Attributes:
        name: their name in messages.
        needs: the programs that they need.
        mounts: the folders in which the container `prepare` has a volume.
        user: the id of their user.
        groups: the ids of the groups that the pods set.
        architecture: the architecture of the nodes that they select; empty if they select none.
    """

    name: str
    needs: list[Need]
    mounts: tuple[str, ...]
    user: int
    groups: frozenset[int]
    architecture: str

    def user_in(self, root: Root) -> User:
        """Return the user of the container. /etc/passwd of the image decides about its group, else it is 0.

        Source: containerd v2.1.4 pkg/oci/spec_opts.go WithUserID; cri-o v1.34.0
        internal/factory/container/container.go.
        """
        users = Walk(root, User(self.user, frozenset())).find(f"/{'/'.join(USERS)}")
        text = root.text(users[0]) if users and users[1].kind == "file" else ""
        lines = (line.split(":") for line in text.splitlines())
        groups = (fields[3] for fields in lines if len(fields) > 3 and fields[2] == str(self.user))  # noqa: PLR2004
        group = next(groups, "0")
        return User(self.user, self.groups | {int(group) if group.isdecimal() else 0})


def pods_of(runtime: Runtime, manifest: Manifest) -> Iterator[Pod]:
    """Yield the pods of a runtime: the worker pods and the launcher pod.

    Args:
        runtime: the runtime.
        manifest: its TrainingRuntime or ClusterTrainingRuntime.
    """
    pods = {template.role: template for template in pod_templates(manifest)}
    variables = {variable.name: variable.value for one in pods[LAUNCHER].containers for variable in one.variables}
    for role, name in ((NODE, "worker pods"), (LAUNCHER, "launcher pod")):
        yield _pod(runtime, pods[role], name, variables.get("PATH", ""))


def _pod(runtime: Runtime, template: PodTemplate, name: str, path: str) -> Pod:
    """Return the pods of a template. `path` is the PATH of the launcher, which ssh carries to the worker pods."""
    prepare = next((one.body for one in template.init_containers if one.body.get("name") == "prepare"), {})
    security = mapping(template.spec, "securityContext")
    groups = [integer(security.get("fsGroup"), 0), *security.get("supplementalGroups", ())]
    return Pod(
        name,
        image_needs(runtime, path, is_launcher=template.role == LAUNCHER),
        tuple(string(mount.get("mountPath")) for mount in mappings(prepare.get("volumeMounts"))),
        integer(security.get("runAsUser"), _OF_NAMESPACE),
        frozenset(groups),
        string_map(template.spec.get("nodeSelector")).get("kubernetes.io/arch", ""),
    )
