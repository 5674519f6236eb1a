"""What the API server enforces on built-in kinds although OpenAPI does not say it.

OpenAPI knows Go's types; the rest stands in the validation code, in k8s.io/kubernetes v1.34.2 below pkg/apis, whose
function is named beside each demand. A real API server judges them all in tests/cluster/differential. What compares
two values with each other, such as `endPort` with `port`, is beyond a schema.
"""

from __future__ import annotations

from generator.schemas.enforced_pods import AMOUNT, DNS_LABEL, LABELS, NAMED_PORT, PODS, PORT
from generator.schemas.formats import Schema
from generator.schemas.narrow import (
    ABSENT,
    COUNT,
    NONE,
    NOT_EMPTY,
    SOME,
    TEXT,
    all_of,
    exactly_one,
    fields,
    has,
    says,
    when,
)
from generator.schemas.patterns import (
    ANNOTATION,
    FILE_KEY,
    KEY,
    LIMIT_TYPE,
    NETWORK,
    OF_LIMITS,
    OF_QUOTAS,
    PERCENT,
    POLICY_VERSION,
    PORT_NAME_OR_NOTHING,
    VALUE,
)

_RBAC = "rbac.authorization.k8s.io"
_NETWORK: Schema = {"type": "string", "pattern": NETWORK}
_SHARE: Schema = {"minimum": 0, "pattern": PERCENT}
_FILES: Schema = {"propertyNames": {"pattern": FILE_KEY, "maxLength": 253}}
_LIMITED: Schema = {"propertyNames": {"pattern": OF_LIMITS}}
_WITH_SPEC = (
    "core.v1.PersistentVolumeClaim",
    "core.v1.Pod",
    "core.v1.Service",
    "batch.v1.CronJob",
    "batch.v1.Job",
    "apps.v1.DaemonSet",
    "apps.v1.Deployment",
    "apps.v1.ReplicaSet",
    "apps.v1.StatefulSet",
    "admissionregistration.v1.ValidatingAdmissionPolicy",
    "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
)
# k8s.io/pod-security-admission v0.34.2 api/helpers.go ParseLevel, ParseVersion
_SECURITY = {
    f"pod-security.kubernetes.io/{mode}{part}": demand
    for mode in ("audit", "enforce", "warn")
    for part, demand in (
        ("", {"enum": ["baseline", "privileged", "restricted"]}),
        ("-version", {"pattern": POLICY_VERSION}),
    )
}
_SELECTS: Schema = {"minProperties": 1}
_RUNS_FOR_EVER = fields(spec=fields(restartPolicy={"enum": ["Always", "", None]}))
_ENDS = fields("spec", spec=fields("restartPolicy", restartPolicy={"enum": ["Never", "OnFailure"]}))

TYPES: dict[str, Schema] = PODS | {
    # apimachinery v0.34.2 pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation ValidateLabelSelector
    "meta.v1.ObjectMeta": fields(labels=LABELS, annotations={"propertyNames": {"pattern": ANNOTATION}}),
    "meta.v1.LabelSelector": fields(matchLabels=LABELS),
    "meta.v1.LabelSelectorRequirement": fields(
        key={"pattern": KEY},
        operator={"enum": ["DoesNotExist", "Exists", "In", "NotIn"]},
        values={"items": {"pattern": VALUE}},
    )
    | when(says("operator", "In", "NotIn"), fields("values", values=SOME), fields(values=NONE)),
    # rbac ValidatePolicyRule, ValidateClusterRole, ValidateRoleBinding, ValidateRoleBindingSubject
    "rbac.v1.PolicyRule": fields(verbs=SOME)
    | when(
        fields("nonResourceURLs", nonResourceURLs=SOME),
        fields(apiGroups=NONE, resources=NONE, resourceNames=NONE),
        fields("apiGroups", "resources", apiGroups=SOME, resources=SOME),
    ),
    "rbac.v1.AggregationRule": fields("clusterRoleSelectors", clusterRoleSelectors=SOME),
    "rbac.v1.RoleRef": fields(apiGroup={"enum": [_RBAC, "", None]}, name=TEXT),
    "rbac.v1.Subject": fields(kind={"enum": ["Group", "ServiceAccount", "User"]}, name=TEXT)
    | when(
        says("kind", "ServiceAccount"),
        fields(apiGroup={"enum": ["", None]}),
        fields(apiGroup={"enum": [_RBAC, "", None]}),
    ),
    # networking ValidateNetworkPolicyPort, ValidateNetworkPolicyPeer, ValidateIPBlock
    "networking.v1.NetworkPolicyPort": fields(port=NAMED_PORT, endPort=PORT)
    | when(has("endPort"), fields("port", port={"type": "integer"})),
    "networking.v1.NetworkPolicyPeer": {"minProperties": 1}
    | when(has("ipBlock"), fields(namespaceSelector=ABSENT, podSelector=ABSENT)),
    "networking.v1.IPBlock": {"properties": {"cidr": _NETWORK, "except": {"items": _NETWORK}}},
    # core ValidateService, ValidateConfigMap, ValidateSecret
    "core.v1.ServiceSpec": all_of(
        when(says("type", "ExternalName"), {}, when(says("clusterIP", "None"), {}, fields("ports", ports=SOME))),
        when(fields("ports", ports={"minItems": 2}), fields(ports={"items": fields("name", name=TEXT)})),
    ),
    "core.v1.ServicePort": fields(port=PORT, targetPort={**NAMED_PORT, "pattern": PORT_NAME_OR_NOTHING}),
    "core.v1.ConfigMap": fields(data=_FILES, binaryData=_FILES),
    "core.v1.Secret": fields(data=_FILES, stringData=_FILES),
    # core ValidateLimitRange, ValidateResourceQuotaSpec; amounts of one limit are not compared with each other
    "core.v1.LimitRangeItem": fields(
        type={"pattern": LIMIT_TYPE},
        **dict.fromkeys(("default", "defaultRequest", "max", "maxLimitRequestRatio", "min"), _LIMITED),
    )
    | when(says("type", "Pod"), fields(default={"maxProperties": 0}, defaultRequest={"maxProperties": 0})),
    "core.v1.ResourceQuotaSpec": fields(hard={"propertyNames": {"pattern": OF_QUOTAS}, "additionalProperties": AMOUNT}),
    # core ValidatePersistentVolumeClaimSpec
    "core.v1.PersistentVolumeClaimSpec": fields(
        "accessModes",
        "resources",
        accessModes=SOME,
        resources={"type": "object"} | fields("requests", requests={"type": "object"} | fields("storage")),
    ),
    # batch validateJobSpec, validateCronJobSpec, validatePodFailurePolicyRule
    "batch.v1.JobSpec": fields(
        template=_ENDS,
        activeDeadlineSeconds=COUNT,
        backoffLimit=COUNT,
        completionMode=NOT_EMPTY,
        completions=COUNT,
        parallelism=COUNT,
        ttlSecondsAfterFinished=COUNT,
    )
    | all_of(
        when(says("completionMode", "Indexed"), fields("completions", completions={"type": "integer"})),
        when(has("podFailurePolicy"), fields(template=fields(spec=fields(restartPolicy={"enum": ["Never"]})))),
    ),
    "batch.v1.JobTemplateSpec": fields("spec", spec={"type": "object"}),
    "batch.v1.CronJobSpec": fields(schedule=TEXT, failedJobsHistoryLimit=COUNT, successfulJobsHistoryLimit=COUNT),
    "batch.v1.PodFailurePolicyRule": exactly_one("onExitCodes", "onPodConditions"),
    # apps ValidateDeploymentSpec, ValidateRollingUpdateDeployment and their likes
    "apps.v1.DaemonSetSpec": fields(selector=_SELECTS, template=_RUNS_FOR_EVER),
    "apps.v1.DeploymentSpec": fields(selector=_SELECTS, template=_RUNS_FOR_EVER, replicas=COUNT),
    "apps.v1.ReplicaSetSpec": fields(selector=_SELECTS, template=_RUNS_FOR_EVER, replicas=COUNT),
    "apps.v1.StatefulSetSpec": fields(selector=_SELECTS, template=_RUNS_FOR_EVER, replicas=COUNT),
    "apps.v1.DeploymentStrategy": when(says("type", "Recreate"), fields(rollingUpdate=ABSENT)),
    "apps.v1.RollingUpdateDeployment": fields(maxSurge=_SHARE, maxUnavailable=_SHARE),
    "policy.v1.PodDisruptionBudgetSpec": fields(maxUnavailable=_SHARE, minAvailable=_SHARE)
    | when(has("minAvailable"), fields(maxUnavailable=ABSENT)),
    # resource validateSelector, validateDeviceRequest
    "resource.v1.DeviceSelector": fields("cel", cel={"type": "object"}),
    "resource.v1.ExactDeviceRequest": fields("deviceClassName", deviceClassName=TEXT),
    "resource.v1.DeviceRequest": fields(name=DNS_LABEL) | exactly_one("exactly", "firstAvailable"),
    # admissionregistration validateValidatingAdmissionPolicySpec, validateNamedRuleWithOperations
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": fields(
        "matchConstraints",
        matchConstraints={"type": "object"} | fields("resourceRules", resourceRules=SOME),
    )
    | when(has("auditAnnotations"), {}, fields("validations", validations=SOME)),
    "admissionregistration.v1.Validation": fields(expression=TEXT, reason=NOT_EMPTY),
    "admissionregistration.v1.NamedRuleWithOperations": fields(
        "apiGroups",
        "apiVersions",
        "operations",
        "resources",
        apiGroups=SOME,
        apiVersions={**SOME, "items": TEXT},
        operations=SOME,
        resources={**SOME, "items": TEXT},
    ),
    # admissionregistration validateValidatingAdmissionPolicyBinding
    "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": fields(
        "policyName", "validationActions", policyName=TEXT, validationActions=SOME
    ),
    # a kind whose spec must hold something must have one
    **dict.fromkeys(_WITH_SPEC, fields("spec", spec={"type": "object"})),
}
"""Type → demand."""

KINDS: dict[tuple[str, str], Schema] = {
    ("", "Namespace"): fields(metadata=fields(labels={"properties": _SECURITY})),
    # rbac ValidateRole, ValidateClusterRoleBinding, ValidateRoleBinding
    (_RBAC, "Role"): fields(rules={"items": fields(nonResourceURLs=NONE)}),
    (_RBAC, "RoleBinding"): fields(roleRef=fields(kind={"enum": ["ClusterRole", "Role"]})),
    (_RBAC, "ClusterRoleBinding"): fields(
        roleRef=fields(kind={"enum": ["ClusterRole"]}),
        subjects={"items": when(says("kind", "ServiceAccount"), fields("namespace", namespace=TEXT))},
    ),
    # scheduling ValidatePriorityClass
    ("scheduling.k8s.io", "PriorityClass"): fields(preemptionPolicy=NOT_EMPTY)
    | when(
        fields(metadata=fields(name={"pattern": "^system-"})),
        fields(metadata=fields(name={"enum": ["system-cluster-critical", "system-node-critical"]})),
        fields(value={"maximum": 10**9}),
    ),
}
"""(group, kind) → demand."""
