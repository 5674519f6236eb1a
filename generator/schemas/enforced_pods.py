"""What the API server enforces on pods and their parts although OpenAPI does not say it.

Source: k8s.io/kubernetes v1.34.2 pkg/apis/core/validation/validation.go; the function is named beside each demand.
"""

from __future__ import annotations

from generator.schemas.formats import Schema
from generator.schemas.narrow import ABSENT, COUNT, NONE, SOME, TEXT, all_of, exactly_one, fields, has, says, when
from generator.schemas.patterns import (
    KEY,
    KEY_OR_NOTHING,
    LABEL_NAME,
    NOT_NEGATIVE,
    OF_CONTAINERS,
    PORT_NAME,
    PORT_NAME_OR_NOTHING,
    VALUE,
    VARIABLE,
)

LABELS: Schema = {"propertyNames": {"pattern": KEY}, "additionalProperties": {"pattern": VALUE}}
PORT: Schema = {"minimum": 1, "maximum": 65535}
NAMED_PORT: Schema = {**PORT, "pattern": PORT_NAME, "maxLength": 15}
DNS_LABEL: Schema = {"type": "string", "pattern": LABEL_NAME, "maxLength": 63}
AMOUNT: Schema = {"pattern": NOT_NEGATIVE, "minimum": 0}
_AMOUNTS: Schema = {"propertyNames": {"pattern": OF_CONTAINERS}, "additionalProperties": AMOUNT}
_ID: Schema = {"minimum": 0, "maximum": 2**31 - 1}
_MODE: Schema = {"minimum": 0, "maximum": 0o777}
_WEIGHT: Schema = {"minimum": 1, "maximum": 100}
_ONCE = fields(successThreshold={"enum": [0, 1, None]})

PODS: dict[str, Schema] = {
    # ValidatePodTemplateSpec, ValidatePodSpec, validateContainerCommon, validateContainers
    "core.v1.PodTemplateSpec": fields("spec", spec={"type": "object"}),
    "core.v1.PodSpec": fields(
        "containers",
        containers=SOME,
        nodeSelector=LABELS,
        activeDeadlineSeconds={"minimum": 1, "maximum": 2**31 - 1},
    ),
    "core.v1.Container": fields(
        "image",
        name=DNS_LABEL,
        image=TEXT,
        livenessProbe=_ONCE,
        startupProbe=_ONCE,
    ),
    "core.v1.ContainerPort": fields(
        containerPort=PORT,
        hostPort={"minimum": 0, "maximum": 65535},
        name={"pattern": PORT_NAME_OR_NOTHING, "maxLength": 15},
    ),
    # ValidateEnv (names are relaxed since 1.34), validateEnvVarValueFrom
    "core.v1.EnvVar": fields(name={"type": "string", "pattern": VARIABLE})
    | when(has("valueFrom"), fields(value={"maxLength": 0})),
    "core.v1.EnvVarSource": exactly_one(
        "configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"
    ),
    # validateProbe, validateHandler, validateHTTPGetAction, validateTCPSocketAction, validateGRPCAction
    "core.v1.Probe": exactly_one("exec", "grpc", "httpGet", "tcpSocket")
    | fields(
        failureThreshold=COUNT,
        initialDelaySeconds=COUNT,
        periodSeconds=COUNT,
        successThreshold=COUNT,
        timeoutSeconds=COUNT,
        terminationGracePeriodSeconds={"minimum": 1},
    ),
    "core.v1.LifecycleHandler": exactly_one("exec", "httpGet", "sleep", "tcpSocket"),
    "core.v1.ExecAction": fields("command", command=SOME),
    "core.v1.HTTPGetAction": fields(port=NAMED_PORT),
    "core.v1.TCPSocketAction": fields(port=NAMED_PORT),
    "core.v1.GRPCAction": fields(port=PORT),
    # validateResourceRequirements, validateContainerResourceName; the amounts of volumes are another type
    "core.v1.ResourceRequirements": fields(limits=_AMOUNTS, requests=_AMOUNTS),
    # ValidateVolumes, validateVolumeSource (none is an emptyDir), ValidateVolumeMounts
    "core.v1.Volume": fields(name=DNS_LABEL) | {"maxProperties": 2},
    "core.v1.VolumeMount": fields(name=TEXT, mountPath=TEXT),
    **dict.fromkeys(
        (
            "core.v1.ConfigMapVolumeSource",
            "core.v1.DownwardAPIVolumeSource",
            "core.v1.ProjectedVolumeSource",
            "core.v1.SecretVolumeSource",
        ),
        fields(defaultMode=_MODE),
    ),
    "core.v1.DownwardAPIVolumeFile": fields(mode=_MODE),
    "core.v1.KeyToPath": fields(mode=_MODE),
    # ValidatePodSecurityContext, ValidateSecurityContext, validateSeccompProfileField
    "core.v1.PodSecurityContext": fields(runAsUser=_ID, runAsGroup=_ID, fsGroup=_ID, supplementalGroups={"items": _ID}),
    "core.v1.SecurityContext": fields(runAsUser=_ID, runAsGroup=_ID),
    "core.v1.SeccompProfile": when(
        says("type", "Localhost"),
        fields("localhostProfile", localhostProfile=TEXT),
        fields(localhostProfile=ABSENT),
    ),
    # ValidateTolerations
    "core.v1.Toleration": fields(key={"pattern": KEY_OR_NOTHING})
    | all_of(
        when(
            says("operator", "Exists"),
            fields(value={"maxLength": 0}),
            fields("key", key=TEXT, value={"pattern": VALUE}),
        ),
        when(has("tolerationSeconds"), fields("effect", effect={"enum": ["NoExecute"]})),
    ),
    # ValidateNodeSelector, ValidateNodeSelectorRequirement, ValidatePreferredSchedulingTerms
    "core.v1.NodeSelector": fields(nodeSelectorTerms=SOME),
    "core.v1.NodeSelectorRequirement": fields(key={"pattern": KEY})
    | all_of(
        when(says("operator", "In", "NotIn"), fields("values", values=SOME)),
        when(says("operator", "Exists", "DoesNotExist"), fields(values=NONE)),
        when(says("operator", "Gt", "Lt"), fields("values", values={**SOME, "maxItems": 1})),
    ),
    "core.v1.PreferredSchedulingTerm": fields(weight=_WEIGHT),
    "core.v1.WeightedPodAffinityTerm": fields(weight=_WEIGHT),
    # validatePodAffinityTerm, validateTopologySpreadConstraints
    "core.v1.PodAffinityTerm": fields(topologyKey={"pattern": KEY}),
    "core.v1.TopologySpreadConstraint": fields(topologyKey=TEXT, maxSkew={"minimum": 1}),
}
"""Type → demand."""
