"""audit/*: the findings about existing objects, which `mpigen audit` reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.existing.verdicts import POD_SECURITY, Answer, Audit, Verdict
from generator.checks.finding import Finding, Located, place_findings
from generator.checks.registry import ERROR, INFO, WARNING, Breach, complete, declare


def find_breaches(audit: Audit) -> Iterator[Located]:
    """Yield the breaches of existing objects, and one for each rule and reason of unknown results."""
    unknown: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in audit.verdicts:
        if verdict.answer in (Answer.UNKNOWN, Answer.ERROR):
            unknown.setdefault((verdict.rule, verdict.message), []).append(verdict)
        elif verdict.answer is not Answer.PASS:
            yield complete(_breach(verdict), verdict.manifest)
    for (rule, message), verdicts in unknown.items():
        resources = [verdict.manifest.resource for verdict in verdicts]
        why, fix = "the object alone does not show the answer", "look up the creator in the audit log of the API server"
        if verdicts[0].answer is Answer.ERROR:
            why = "the audit has no result of this rule for the object"
            fix = "compare the object with the rule yourself"
        subject = f"{len(resources)} objects, such as {resources[0]}" if len(resources) > 1 else "this object"
        yield complete(
            Breach(
                ("metadata", "name"),
                f"mpigen cannot decide if the rule `{rule}` rejects {subject}: {message}",
                why,
                fix,
                severity=INFO,
                check="audit/unknown",
            ),
            verdicts[0].manifest,
        )


def _breach(verdict: Verdict) -> Breach:
    kind = verdict.manifest.kind
    if verdict.policy == POD_SECURITY:
        return Breach(
            verdict.path,
            f"the pod {verdict.message}",
            "the API server rejects such a pod today, so this one is older than the level, or the level was lower",
            "delete the pod, and change the object that creates it as the message requires",
            check="audit/pod-security",
        )
    is_denied = verdict.answer is Answer.FAIL
    effect = "rejects" if is_denied else "warns about" if "Warn" in verdict.actions else "logs"
    why = "the policy does not reject this object, so any member of the team can create it"
    if is_denied:
        why = (
            "the object is older than the policy, a platform admin created it, or the policy had no binding at the time"
        )
    return Breach(
        verdict.path,
        f"the policy `{verdict.policy}` {effect} a new {kind} like this: {verdict.message}",
        why,
        "change or delete the object as the message requires, or accept the finding with a waiver in the settings",
        severity=ERROR if is_denied else WARNING if "Warn" in verdict.actions else INFO,
        check="audit/denied",
    )


def find_findings(audit: Audit, texts: Mapping[str, bytes]) -> list[Finding]:
    """Return the findings of an audit with their lines. `texts` is file → its text."""
    by_file: dict[str, list[Located]] = {}
    for located in find_breaches(audit):
        by_file.setdefault(located[0].file, []).append(located)
    return [finding for file, breaches in by_file.items() for finding in place_findings(breaches, texts[file])]


declare(
    "audit/denied",
    severity=ERROR,
    text="""Report an existing object that an admission policy would reject today.

    The API server evaluates policies only for requests. An object from before a policy, or from a time without the
    policy, stays, and nothing shows it. `mpigen audit` judges each object in the export of a cluster as the request of
    a member of the team to create it:

    - The values that the API server and controllers wrote later are left out.
    - An object with a controlling owner is the work of a controller, if controllers create objects of this kind for
      such an owner. The owner must be in the export, with the UID in the reference.
    - An object of the release with equal values is the work of the platform. Without a release, an object with the
      labels of mpigen is the work of the platform. So are the objects that Kubernetes and OpenShift create in each
      namespace.
    - Policies that read the user do not judge objects of controllers and of the platform.

    The finding is a warning if the binding only warns, and an info if it only writes to the audit log. No field of an
    object shows that a platform admin created it.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/validating/dispatcher.go dispatcher.Dispatch
    """,
)
declare(
    "audit/pod-security",
    severity=ERROR,
    text="""Report an existing pod that violates the Pod Security level of its Namespace.

    The API server checks the level when a pod is created. If the Namespace gets a stricter level later, existing pods
    keep running. `mpigen audit` reads the levels from the Namespaces of the export, or of the release.

    Source: pod-security-admission v0.34.2 admission/admission.go Admission.ValidatePod
    """,
)
declare(
    "audit/unknown",
    severity=INFO,
    text="""Report a rule whose result for existing objects is unknown.

    A rule can depend on the user of the request, or on the permissions of the user. An existing object does not show
    its creator: annotations and managed fields have the values that the creator chose. The audit log of the API server
    has the user of each request. The result is also unknown if mpigen cannot evaluate a rule, or if a rule about
    users would reject an object whose controlling owner is not in the export.

    Source: apiserver v0.34.2 pkg/admission/plugin/cel/condition.go CreateAdmissionRequest
    """,
)
