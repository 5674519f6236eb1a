"""Differences between the OpenAPI of built-in kinds and the objects that the API server accepts.

Stricter: OpenAPI describes Go's types, and validation code in k8s.io/kubernetes v1.34.2 below pkg/apis adds rules. A
comment beside each demand names its function; those of pods are in pkg/apis/core/validation/validation.go. A schema
cannot compare two values with each other, such as `endPort` with `port`.

More lenient: OpenAPI's `required` only means that a Go field has no `omitempty`. For each field in `NOT_ENFORCED`,
kube-apiserver v1.34.2 accepted a create request (`dryRun=All`, `fieldValidation=Strict`) without it.

A real API server judges all of this in tests/cluster/differential.
"""

from __future__ import annotations

from generator.schemas.json_schema import (
    ABSENT,
    EMPTY_LIST,
    NON_EMPTY_LIST,
    NON_EMPTY_STRING,
    NON_NEGATIVE,
    NOT_EMPTY,
    Schema,
    all_of,
    exactly_one,
    fields,
    is_one_of,
    is_set,
    when,
)
from generator.schemas.patterns import (
    ANNOTATION,
    FILE_KEY,
    KEY,
    KEY_OR_NOTHING,
    LABEL_NAME,
    LIMIT_TYPE,
    NETWORK,
    NOT_NEGATIVE,
    OF_CONTAINERS,
    OF_LIMITS,
    OF_QUOTAS,
    PERCENT,
    POLICY_VERSION,
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
        containers=NON_EMPTY_LIST,
        nodeSelector=LABELS,
        activeDeadlineSeconds={"minimum": 1, "maximum": 2**31 - 1},
    ),
    "core.v1.Container": fields(
        "image",
        name=DNS_LABEL,
        image=NON_EMPTY_STRING,
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
    | when(is_set("valueFrom"), fields(value={"maxLength": 0})),
    "core.v1.EnvVarSource": exactly_one(
        "configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"
    ),
    # validateProbe, validateHandler, validateHTTPGetAction, validateTCPSocketAction, validateGRPCAction
    "core.v1.Probe": exactly_one("exec", "grpc", "httpGet", "tcpSocket")
    | fields(
        failureThreshold=NON_NEGATIVE,
        initialDelaySeconds=NON_NEGATIVE,
        periodSeconds=NON_NEGATIVE,
        successThreshold=NON_NEGATIVE,
        timeoutSeconds=NON_NEGATIVE,
        terminationGracePeriodSeconds={"minimum": 1},
    ),
    "core.v1.LifecycleHandler": exactly_one("exec", "httpGet", "sleep", "tcpSocket"),
    "core.v1.ExecAction": fields("command", command=NON_EMPTY_LIST),
    "core.v1.HTTPGetAction": fields(port=NAMED_PORT),
    "core.v1.TCPSocketAction": fields(port=NAMED_PORT),
    "core.v1.GRPCAction": fields(port=PORT),
    # validateResourceRequirements, validateContainerResourceName; the amounts of volumes are another type
    "core.v1.ResourceRequirements": fields(limits=_AMOUNTS, requests=_AMOUNTS),
    # ValidateVolumes, validateVolumeSource (none is an emptyDir), ValidateVolumeMounts
    "core.v1.Volume": fields(name=DNS_LABEL) | {"maxProperties": 2},
    "core.v1.VolumeMount": fields(name=NON_EMPTY_STRING, mountPath=NON_EMPTY_STRING),
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
        is_one_of("type", "Localhost"),
        fields("localhostProfile", localhostProfile=NON_EMPTY_STRING),
        fields(localhostProfile=ABSENT),
    ),
    # ValidateTolerations
    "core.v1.Toleration": fields(key={"pattern": KEY_OR_NOTHING})
    | all_of(
        when(
            is_one_of("operator", "Exists"),
            fields(value={"maxLength": 0}),
            fields("key", key=NON_EMPTY_STRING, value={"pattern": VALUE}),
        ),
        when(is_set("tolerationSeconds"), fields("effect", effect={"enum": ["NoExecute"]})),
    ),
    # ValidateNodeSelector, ValidateNodeSelectorRequirement, ValidatePreferredSchedulingTerms
    "core.v1.NodeSelector": fields(nodeSelectorTerms=NON_EMPTY_LIST),
    "core.v1.NodeSelectorRequirement": fields(key={"pattern": KEY})
    | all_of(
        when(is_one_of("operator", "In", "NotIn"), fields("values", values=NON_EMPTY_LIST)),
        when(is_one_of("operator", "Exists", "DoesNotExist"), fields(values=EMPTY_LIST)),
        when(is_one_of("operator", "Gt", "Lt"), fields("values", values={**NON_EMPTY_LIST, "maxItems": 1})),
    ),
    "core.v1.PreferredSchedulingTerm": fields(weight=_WEIGHT),
    "core.v1.WeightedPodAffinityTerm": fields(weight=_WEIGHT),
    # validatePodAffinityTerm, validateTopologySpreadConstraints
    "core.v1.PodAffinityTerm": fields(topologyKey={"pattern": KEY}),
    "core.v1.TopologySpreadConstraint": fields(topologyKey=NON_EMPTY_STRING, maxSkew={"minimum": 1}),
}
"""Type → demand."""


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
    | when(is_one_of("operator", "In", "NotIn"), fields("values", values=NON_EMPTY_LIST), fields(values=EMPTY_LIST)),
    # rbac ValidatePolicyRule, ValidateClusterRole, ValidateRoleBinding, ValidateRoleBindingSubject
    "rbac.v1.PolicyRule": fields(verbs=NON_EMPTY_LIST)
    | when(
        fields("nonResourceURLs", nonResourceURLs=NON_EMPTY_LIST),
        fields(apiGroups=EMPTY_LIST, resources=EMPTY_LIST, resourceNames=EMPTY_LIST),
        fields("apiGroups", "resources", apiGroups=NON_EMPTY_LIST, resources=NON_EMPTY_LIST),
    ),
    "rbac.v1.AggregationRule": fields("clusterRoleSelectors", clusterRoleSelectors=NON_EMPTY_LIST),
    "rbac.v1.RoleRef": fields(apiGroup={"enum": [_RBAC, "", None]}, name=NON_EMPTY_STRING),
    "rbac.v1.Subject": fields(kind={"enum": ["Group", "ServiceAccount", "User"]}, name=NON_EMPTY_STRING)
    | when(
        is_one_of("kind", "ServiceAccount"),
        fields(apiGroup={"enum": ["", None]}),
        fields(apiGroup={"enum": [_RBAC, "", None]}),
    ),
    # networking ValidateNetworkPolicyPort, ValidateNetworkPolicyPeer, ValidateIPBlock
    "networking.v1.NetworkPolicyPort": fields(port=NAMED_PORT, endPort=PORT)
    | when(is_set("endPort"), fields("port", port={"type": "integer"})),
    "networking.v1.NetworkPolicyPeer": {"minProperties": 1}
    | when(is_set("ipBlock"), fields(namespaceSelector=ABSENT, podSelector=ABSENT)),
    "networking.v1.IPBlock": {"properties": {"cidr": _NETWORK, "except": {"items": _NETWORK}}},
    # core ValidateService, ValidateConfigMap, ValidateSecret
    "core.v1.ServiceSpec": all_of(
        when(
            is_one_of("type", "ExternalName"),
            {},
            when(is_one_of("clusterIP", "None"), {}, fields("ports", ports=NON_EMPTY_LIST)),
        ),
        when(fields("ports", ports={"minItems": 2}), fields(ports={"items": fields("name", name=NON_EMPTY_STRING)})),
    ),
    "core.v1.ServicePort": fields(port=PORT, targetPort={**NAMED_PORT, "pattern": PORT_NAME_OR_NOTHING}),
    "core.v1.ConfigMap": fields(data=_FILES, binaryData=_FILES),
    "core.v1.Secret": fields(data=_FILES, stringData=_FILES),
    # core ValidateLimitRange, ValidateResourceQuotaSpec; amounts of one limit are not compared with each other
    "core.v1.LimitRangeItem": fields(
        type={"pattern": LIMIT_TYPE},
        **dict.fromkeys(("default", "defaultRequest", "max", "maxLimitRequestRatio", "min"), _LIMITED),
    )
    | when(is_one_of("type", "Pod"), fields(default={"maxProperties": 0}, defaultRequest={"maxProperties": 0})),
    "core.v1.ResourceQuotaSpec": fields(hard={"propertyNames": {"pattern": OF_QUOTAS}, "additionalProperties": AMOUNT}),
    # core ValidatePersistentVolumeClaimSpec
    "core.v1.PersistentVolumeClaimSpec": fields(
        "accessModes",
        "resources",
        accessModes=NON_EMPTY_LIST,
        resources={"type": "object"} | fields("requests", requests={"type": "object"} | fields("storage")),
    ),
    # batch validateJobSpec, validateCronJobSpec, validatePodFailurePolicyRule
    "batch.v1.JobSpec": fields(
        template=_ENDS,
        activeDeadlineSeconds=NON_NEGATIVE,
        backoffLimit=NON_NEGATIVE,
        completionMode=NOT_EMPTY,
        completions=NON_NEGATIVE,
        parallelism=NON_NEGATIVE,
        ttlSecondsAfterFinished=NON_NEGATIVE,
    )
    | all_of(
        when(is_one_of("completionMode", "Indexed"), fields("completions", completions={"type": "integer"})),
        when(is_set("podFailurePolicy"), fields(template=fields(spec=fields(restartPolicy={"enum": ["Never"]})))),
    ),
    "batch.v1.JobTemplateSpec": fields("spec", spec={"type": "object"}),
    "batch.v1.CronJobSpec": fields(
        schedule=NON_EMPTY_STRING, failedJobsHistoryLimit=NON_NEGATIVE, successfulJobsHistoryLimit=NON_NEGATIVE
    ),
    "batch.v1.PodFailurePolicyRule": exactly_one("onExitCodes", "onPodConditions"),
    # apps ValidateDeploymentSpec, ValidateRollingUpdateDeployment and their likes
    "apps.v1.DaemonSetSpec": fields(selector=_SELECTS, template=_RUNS_FOR_EVER),
    "apps.v1.DeploymentSpec": fields(selector=_SELECTS, template=_RUNS_FOR_EVER, replicas=NON_NEGATIVE),
    "apps.v1.ReplicaSetSpec": fields(selector=_SELECTS, template=_RUNS_FOR_EVER, replicas=NON_NEGATIVE),
    "apps.v1.StatefulSetSpec": fields(selector=_SELECTS, template=_RUNS_FOR_EVER, replicas=NON_NEGATIVE),
    "apps.v1.DeploymentStrategy": when(is_one_of("type", "Recreate"), fields(rollingUpdate=ABSENT)),
    "apps.v1.RollingUpdateDeployment": fields(maxSurge=_SHARE, maxUnavailable=_SHARE),
    "policy.v1.PodDisruptionBudgetSpec": fields(maxUnavailable=_SHARE, minAvailable=_SHARE)
    | when(is_set("minAvailable"), fields(maxUnavailable=ABSENT)),
    # resource validateSelector, validateDeviceRequest
    "resource.v1.DeviceSelector": fields("cel", cel={"type": "object"}),
    "resource.v1.ExactDeviceRequest": fields("deviceClassName", deviceClassName=NON_EMPTY_STRING),
    "resource.v1.DeviceRequest": fields(name=DNS_LABEL) | exactly_one("exactly", "firstAvailable"),
    # admissionregistration validateValidatingAdmissionPolicySpec, validateNamedRuleWithOperations
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": fields(
        "matchConstraints",
        matchConstraints={"type": "object"} | fields("resourceRules", resourceRules=NON_EMPTY_LIST),
    )
    | when(is_set("auditAnnotations"), {}, fields("validations", validations=NON_EMPTY_LIST)),
    "admissionregistration.v1.Validation": fields(expression=NON_EMPTY_STRING, reason=NOT_EMPTY),
    "admissionregistration.v1.NamedRuleWithOperations": fields(
        "apiGroups",
        "apiVersions",
        "operations",
        "resources",
        apiGroups=NON_EMPTY_LIST,
        apiVersions={**NON_EMPTY_LIST, "items": NON_EMPTY_STRING},
        operations=NON_EMPTY_LIST,
        resources={**NON_EMPTY_LIST, "items": NON_EMPTY_STRING},
    ),
    # admissionregistration validateValidatingAdmissionPolicyBinding
    "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": fields(
        "policyName", "validationActions", policyName=NON_EMPTY_STRING, validationActions=NON_EMPTY_LIST
    ),
    # a kind whose spec must hold something must have one
    **dict.fromkeys(_WITH_SPEC, fields("spec", spec={"type": "object"})),
}
"""Type → demand."""

KINDS: dict[tuple[str, str], Schema] = {
    ("", "Namespace"): fields(metadata=fields(labels={"properties": _SECURITY})),
    # rbac ValidateRole, ValidateClusterRoleBinding, ValidateRoleBinding
    (_RBAC, "Role"): fields(rules={"items": fields(nonResourceURLs=EMPTY_LIST)}),
    (_RBAC, "RoleBinding"): fields(roleRef=fields(kind={"enum": ["ClusterRole", "Role"]})),
    (_RBAC, "ClusterRoleBinding"): fields(
        roleRef=fields(kind={"enum": ["ClusterRole"]}),
        subjects={"items": when(is_one_of("kind", "ServiceAccount"), fields("namespace", namespace=NON_EMPTY_STRING))},
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


FILLED_IN = {  # pkg/apis/rbac/v1/defaults.go, pkg/apis/batch/v1/defaults.go
    ("rbac.v1.RoleRef", "apiGroup"),
    ("batch.v1.PodFailurePolicyOnPodConditionsPattern", "status"),
}
ZERO_WILL_DO = {
    ("apiextensions.v1.CustomResourceDefinitionVersion", "served"),
    ("apiextensions.v1.CustomResourceDefinitionVersion", "storage"),
    ("apps.v1.ControllerRevision", "revision"),
    ("batch.v1.PodFailurePolicy", "rules"),
    ("core.v1.Event", "involvedObject"),
    ("core.v1.HTTPHeader", "value"),
    ("core.v1.ISCSIPersistentVolumeSource", "lun"),
    ("core.v1.ISCSIVolumeSource", "lun"),
    ("core.v1.LimitRangeSpec", "limits"),
    ("core.v1.PreferredSchedulingTerm", "preference"),
    ("core.v1.ScaleIOVolumeSource", "secretRef"),
    ("core.v1.SleepAction", "seconds"),
    ("core.v1.Sysctl", "value"),
    ("discovery.v1.EndpointSlice", "endpoints"),
    ("discovery.v1.ForZone", "name"),
    ("scheduling.v1.PriorityClass", "value"),
    ("storage.v1.CSIDriver", "spec"),
    ("storage.v1.CSINode", "spec"),
    ("storage.v1.CSINodeSpec", "drivers"),
    ("storage.v1.TokenRequest", "audience"),
} | {
    (f"resource.{version}.{name}", field)
    for version in ("v1", "v1beta1", "v1beta2")
    for name, field in (
        ("DeviceCapacity", "value"),
        ("DeviceClass", "spec"),
        ("ResourceClaim", "spec"),
        ("ResourceClaimTemplate", "spec"),
        ("ResourceClaimTemplateSpec", "spec"),
        ("ResourcePool", "generation"),
    )
}
NOT_ENFORCED = FILLED_IN | ZERO_WILL_DO
