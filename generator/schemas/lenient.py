"""Built-in fields that OpenAPI calls required, yet without which the API server accepts an object.

OpenAPI's `required` says only that a Go field has no `omitempty`; what is enforced stands in the validation code. Each
entry was observed: kube-apiserver v1.34.2 accepts a create (`dryRun=All`, `fieldValidation=Strict`) without the field.
"""

from __future__ import annotations

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
