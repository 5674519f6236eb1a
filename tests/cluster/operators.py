"""Act as operators that the control plane of the tests lacks: External Secrets, and a provisioner of volumes."""

from __future__ import annotations

from tests.cluster.client import Body, Client

_READY = {
    "conditions": [{"type": "Ready", "status": "True", "reason": "Valid", "lastTransitionTime": "2025-01-01T00:00:00Z"}]
}
_EXTERNAL_SECRETS = "external-secrets.io/v1"


def reconcile(admin: Client) -> bool:
    """Report each SecretStore and ExternalSecret as ready, and create a volume for each claim; return True."""
    for kind in ("SecretStore", "ExternalSecret"):
        for item in admin.items(_EXTERNAL_SECRETS, kind):
            if "conditions" not in item.get("status", {}):
                body = {"apiVersion": _EXTERNAL_SECRETS, "kind": kind, "metadata": item["metadata"]}
                path = f"{admin.path_of(body)}/status"
                admin.request("PATCH", path, {"status": _READY}, "application/merge-patch+json")
    for claim in admin.items("v1", "PersistentVolumeClaim"):
        volume = _volume(claim)
        if claim["status"]["phase"] == "Pending" and not admin.exists(volume):
            admin.create(volume)
    return True


def delete_volumes(admin: Client) -> None:
    """Delete the volumes whose claims are gone, as a provisioner with the reclaim policy `Delete` does."""
    for volume in admin.items("v1", "PersistentVolume"):
        admin.delete({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": volume["metadata"]})


def _volume(claim: Body) -> Body:
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{metadata['uid']}"},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": spec.get("storageClassName", ""),
            "claimRef": {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]},
            "hostPath": {"path": "/tmp"},
        },
    }
