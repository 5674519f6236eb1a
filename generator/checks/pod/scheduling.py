"""pod/scheduling, pod/dns and pod/annotation: placement, name resolution and annotations of pods."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.pod.templates import Pods, containers_of, report, security_of
from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.names import CONTROLLER_UID, JOB_NAME_LABELS, POD_SECCOMP
from generator.objects.fields import indexed_mappings, items, mapping, mappings, string_map, strings
from generator.objects.pods import RUNTIMES, PodTemplate
from generator.schemas.patterns import KEY, VALUE

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OF_JOBS = frozenset({"Job", "CronJob", "JobSet", *RUNTIMES})
_LABELS_OF_JOBS = (*JOB_NAME_LABELS, "controller-uid", CONTROLLER_UID)
"""Labels of the pods of each Job. Source: kubernetes v1.34.2 pkg/registry/batch/job/strategy.go generateSelector"""
_LONGEST_SEARCH = 2048
_LARGEST_ANNOTATIONS = 256 * 1024
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_COST = re.compile("0|[1-9][0-9]{0,9}|-[0-9]{1,20}")
_MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_KEY, _VALUE = re.compile(KEY), re.compile(VALUE)
_SECCOMP_OF = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR_OF = "container.apparmor.security.beta.kubernetes.io/"
_LONGEST_PROFILE = 4095
_PROFILES = {"RuntimeDefault": ("runtime/default", "docker/default"), "Unconfined": ("unconfined",)}


@check("pod/scheduling", severity=ERROR, needs=Pods)
def scheduling(pods: Pods) -> Iterator[Breach]:
    """Report scheduling fields of pods that exclude each other.

    The check reports in an affinity term or a topology spread constraint:

    - A label key in both `matchLabelKeys` and `mismatchLabelKeys`.
    - A key of `matchLabelKeys` that the label selector has twice.
    - A key of `matchLabelKeys` that the label selector has, if the pods have a label with this key: the API server adds
      the label of each pod to the selector.
    - A key that `matchLabelKeys` has twice, if the pods have a label with this key.

    The check also reports pods with `nodeName` and scheduling gates.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateMatchLabelKeysAndMismatchLabelKeys;
    kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidatePodCreate; kubernetes v1.34.2
    pkg/registry/core/pod/strategy.go applyMatchLabelKeysAndMismatchLabelKeys
    """
    for template in pods.templates:
        path, labels = (*template.path, "spec"), _label_keys(template)
        if template.spec.get("nodeName") and items(template.spec.get("schedulingGates")):
            message = "the pods have scheduling gates, but also a `nodeName`"
            fix = "remove `nodeName` or `schedulingGates`"
            yield report(template, (*path, "nodeName"), message, fix, template.spec["nodeName"], is_of_pods=True)
        for place, term in _terms(template):
            matched, excluded = strings(term.get("matchLabelKeys")), strings(term.get("mismatchLabelKeys"))
            selector = mapping(term, "labelSelector")
            selected: list[object] = [*mapping(selector, "matchLabels")]
            for expression in mappings(selector.get("matchExpressions")):
                key = expression.get("key")
                if key in matched and key in selected:
                    message = f"{format_value(key)} is twice in `labelSelector`, and also in `matchLabelKeys`"
                    yield report(template, (*place, "matchLabelKeys"), message, "remove the key from the selector")
                selected.append(key)
            for key in dict.fromkeys(matched):
                if key in labels and selected.count(key) == 1:
                    message = f"{format_value(key)} is in `labelSelector` and in `matchLabelKeys`"
                    fix = "remove the key from the selector, or from `matchLabelKeys`"
                    yield report(template, (*place, "matchLabelKeys"), message, fix, is_of_pods=True)
                if key in labels and matched.count(key) > 1 and not selected.count(key):
                    message, fix = f"{format_value(key)} is in `matchLabelKeys` twice", "keep one of the two items"
                    yield report(template, (*place, "matchLabelKeys"), message, fix, is_of_pods=True)
                if key in excluded:
                    message = f"{format_value(key)} is in `matchLabelKeys` and in `mismatchLabelKeys`"
                    yield report(template, (*place, "matchLabelKeys"), message, "remove the key from one of the lists")


def _label_keys(template: PodTemplate) -> frozenset[str]:
    """Return the keys of the labels of the pods, including the labels that their Job adds."""
    is_of_job = template.manifest.kind in _OF_JOBS
    return frozenset((*mapping(template.body, "metadata", "labels"), *(_LABELS_OF_JOBS if is_of_job else ())))


def _terms(template: PodTemplate) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the path and the value of each affinity term and topology spread constraint, which select other pods."""
    path = (*template.path, "spec")
    for number, body in indexed_mappings(template.spec.get("topologySpreadConstraints")):
        yield (*path, "topologySpreadConstraints", number), body
    affinity = mapping(template.spec, "affinity")
    for kind in ("podAffinity", "podAntiAffinity") if affinity else ():
        for number, body in indexed_mappings(mapping(affinity, kind).get(_REQUIRED)):
            yield (*path, "affinity", kind, _REQUIRED, number), body
        for number, body in indexed_mappings(mapping(affinity, kind).get(_PREFERRED)):
            yield (*path, "affinity", kind, _PREFERRED, number, "podAffinityTerm"), mapping(body, "podAffinityTerm")


@check("pod/dns", severity=ERROR, needs=Pods)
def dns(pods: Pods) -> Iterator[Breach]:
    """Report pods without a name server, or with search domains that are too long together.

    With `dnsPolicy: None` the pods use only the name servers of `dnsConfig`. All search domains together may have at
    most 2048 characters.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validatePodDNSConfig
    """
    for template in pods.templates:
        config, path = mapping(template.spec, "dnsConfig"), (*template.path, "spec")
        if template.spec.get("dnsPolicy") == "None" and not items(config.get("nameservers")):
            message = "`dnsPolicy` is `None`, but `dnsConfig` has no name server"
            yield report(template, (*path, "dnsPolicy"), message, "list `nameservers` in `dnsConfig`", "None")
        if (length := len(" ".join(strings(config.get("searches"))))) > _LONGEST_SEARCH:
            message = f"the search domains have {length} characters, more than {_LONGEST_SEARCH}"
            yield report(template, (*path, "dnsConfig", "searches"), message, "remove search domains")


@check("pod/annotation", severity=ERROR, needs=Pods)
def annotation(pods: Pods) -> Iterator[Breach]:
    """Report an annotation of pods that the API server rejects.

    The API server reads the deletion cost, the mark of mirror pods, the tolerations, and the seccomp and AppArmor
    profiles in annotations of pods. If the security context has a profile too, both must be equal, except for the
    AppArmor profile of the pods: the annotation of a container overrides it. All annotations of an object together may
    have at most 256 KiB.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidatePodSpecificAnnotations; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidateSeccompPodAnnotations; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidateAppArmorPodAnnotations; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateSeccompAnnotationsAndFields; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateAppArmorAnnotationsAndFieldsMatchOnCreate
    """
    for template in pods.templates:
        values = string_map(template.annotations)
        path = (*template.path, "metadata", "annotations")
        if not values:
            continue
        if (
            size := sum(len(key.encode()) + len(value.encode()) for key, value in values.items())
        ) > _LARGEST_ANNOTATIONS:
            message = f"the annotations have {size} bytes, more than {_LARGEST_ANNOTATIONS}"
            yield report(template, path, message, "move the data to a ConfigMap")
        for key, value in values.items():
            if wrong := _wrong_value(template, key, value):
                yield report(template, (*path, key), wrong, "correct or remove the annotation", value)
        yield from _other_profiles(template, values)


def _wrong_value(template: PodTemplate, key: str, value: str) -> str:
    """Return the mistake in the value of an annotation; empty for a valid value."""
    if key == _DELETION_COST:
        is_cost = _COST.fullmatch(value) and -(2**31) <= int(value) < 2**31
        return "" if is_cost else f"{format_value(value)} is not a deletion cost, which is a 32-bit integer"
    if key == _MIRROR:
        if not template.spec.get("nodeName"):
            return "the annotation marks mirror pods, but these pods have no `nodeName`"
        claims = items(template.spec.get("resourceClaims"))
        return "the annotation marks mirror pods, which cannot have `resourceClaims`" if claims else ""
    if key == _TOLERATIONS and value:
        return "" if _are_tolerations(value) else "the annotation is not a JSON list of valid tolerations"
    if key == POD_SECCOMP or key.startswith(_SECCOMP_OF):
        local = value.removeprefix("localhost/")
        is_local = local != value and not local.startswith("/") and ".." not in local.split("/")
        is_profile = is_local or value in ("runtime/default", "docker/default", "unconfined")
        return "" if is_profile else f"{format_value(value)} is not a seccomp profile"
    if key.startswith(_APP_ARMOR_OF):
        name = key.removeprefix(_APP_ARMOR_OF)
        if all(container.body.get("name") != name for container in containers_of(template)):
            return f"the pods have no container {format_value(name)}"
        is_profile = value in ("", "runtime/default", "unconfined") or value.startswith("localhost/")
        return "" if is_profile else f"{format_value(value)} is not an AppArmor profile"
    return ""


def _are_tolerations(text: str) -> bool:
    """Return True if a text is a JSON list of valid tolerations (ValidateTolerations), or null."""
    try:
        listed = json.loads(text)
    except ValueError:
        return False
    return isinstance(listed, list | None) and all(map(_is_toleration, listed or ()))


def _is_toleration(item: object) -> bool:
    fields = {key.lower(): value for key, value in mapping(item).items()}  # Go ignores the case
    key, operator, value, effect = (fields.get(name) or "" for name in ("key", "operator", "value", "effect"))
    seconds = fields.get("tolerationseconds")
    if not all(isinstance(text, str) for text in (key, operator, value, effect)):
        return False
    is_value = not value if operator == "Exists" else bool(key and _VALUE.fullmatch(value))
    is_known = operator in ("", "Equal", "Exists") and effect in ("", *_EFFECTS)
    has_seconds = effect == _EFFECTS[0] and isinstance(seconds, int)
    return is_value and is_known and (not key or bool(_KEY.fullmatch(key))) and (seconds is None or has_seconds)


def _other_profiles(template: PodTemplate, values: Mapping[str, str]) -> Iterator[Breach]:
    """Yield the profiles of security contexts that differ from the profile in an annotation."""
    of_pods = security_of(template)
    places = [
        ((*template.path, "spec", "securityContext", "seccompProfile"), mapping(of_pods, "seccompProfile"), POD_SECCOMP)
    ]
    is_windows = mapping(template.spec, "os").get("name") == "windows"
    for container in containers_of(template):
        path, own, name = (*container.path, "securityContext"), container.security, container.body.get("name")
        places.append(((*path, "seccompProfile"), mapping(own, "seccompProfile"), f"{_SECCOMP_OF}{name}"))
        is_copied = _is_app_armor(values.get(f"{_APP_ARMOR_OF}{name}", ""))
        armor = mapping(own, "appArmorProfile") or ({} if is_copied else mapping(of_pods, "appArmorProfile"))
        if not is_windows:
            places.append(((*path, "appArmorProfile"), armor, f"{_APP_ARMOR_OF}{name}"))
    for path, profile, key in places:
        value, kind = values.get(key), profile.get("type")
        if value is None or not isinstance(kind, str):
            continue
        expected = _PROFILES.get(kind) or (f"localhost/{profile.get('localhostProfile')}",)
        if key.startswith(_APP_ARMOR_OF):
            expected = expected[:1]
        if value not in expected:
            message = f"the profile is {format_value(kind)}, but the annotation `{key}` is {format_value(value)}"
            yield report(template, path, message, "remove the annotation", is_of_pods=True)


def _is_app_armor(value: str) -> bool:
    """Return True if the API server copies an annotation to the security context of a container without a profile.

    Source: kubernetes v1.34.2 pkg/registry/core/pod/strategy.go applyAppArmorVersionSkew
    """
    local = value.removeprefix("localhost/")
    is_file = local != value and local == local.strip() and 0 < len(local.encode()) <= _LONGEST_PROFILE
    return is_file or value in ("runtime/default", "unconfined")
