"""Patterns of strings that the API server accepts, with their meanings in words: values, formats and names.

Sources: apimachinery v0.34.2 pkg/util/validation/validation.go IsQualifiedName; apimachinery v0.34.2
pkg/util/validation/validation.go IsValidLabelValue (keys, labels, ports); kubernetes v1.34.2
pkg/apis/core/helper/helpers.go IsExtendedResourceName (resources), pkg/apis/core/validation (file keys, networks). The
domain of a label key may have 253 characters; the patterns do not check that length.

Formats: no schema has the keyword `format`, because engines differ on the formats that they assert, and kubeconform
panics on some. `format_keywords` replaces it by keywords that every engine understands.

Names: observed with kube-apiserver v1.34.2, which was asked to create each kind under eighteen names (`dryRun=All`).
Custom resources follow the rule of most kinds: apiextensions-apiserver v0.34.2
pkg/registry/customresource/validator.go customResourceValidator.Validate.
"""

from __future__ import annotations

from typing import NamedTuple

from generator.errors import EngineError, Problem
from generator.facts.api_versions import is_reached
from generator.schemas.json_schema import Schema, narrow

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PORT = "([a-z0-9]+-)*[a-z0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*"
_OCTET = "0*(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_DOMAIN = "[^/]+/[^/]+"
_PLAIN = "cpu|memory|ephemeral-storage"
_COMPUTED = rf"{_PLAIN}|(requests|limits)\.({_PLAIN})|requests\.storage|(requests\.)?hugepages-.+"
_COUNTED = (
    "configmaps|persistentvolumeclaims|pods|replicationcontrollers|resourcequotas|secrets"
    r"|services(\.loadbalancers|\.nodeports)?"
)

_SEGMENT_OF_FILE = r"(\.|\.[^./][^/]*|[^./][^/]*)"
_FIRST_SEGMENT = rf"({_SEGMENT_OF_FILE}|\.\.[^/]+)"
_SYSCTL = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCHED = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_KEYED = (
    rf"metadata\.(labels\['({SUBDOMAIN}/)?{_WORD}'\]"
    rf"|annotations\['({SUBDOMAIN.replace('a-z', 'A-Za-z')}/)?{_WORD}'\])"
)

LABEL_NAME = f"^{LABEL}$"
LABEL_OR_NOTHING = f"^({LABEL})?$"
SUBDOMAIN_NAME = f"^{SUBDOMAIN}$"
SUBDOMAIN_OR_NOTHING = f"^({SUBDOMAIN})?$"
KEY = rf"^({SUBDOMAIN}/)?{_WORD}$"
KEY_OR_NOTHING = rf"^(({SUBDOMAIN}/)?{_WORD})?$"
ANNOTATION = rf"^({SUBDOMAIN.replace('a-z', 'A-Za-z')}/)?{_WORD}$"
VALUE = rf"^({_WORD})?$"
PORT_NAME = f"^{_PORT}$"
PORT_NAME_OR_NOTHING = f"^({_PORT})?$"
VARIABLE = "^[ -<>-~]+$"
VARIABLE_OR_NOTHING = "^[ -<>-~]*$"
NOT_PADDED = r"^\S(.*\S)?$"
FILE_KEY = r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$"
PERCENT = "^[0-9]+%$"
PERCENT_TO_100 = "^0*(100|[1-9]?[0-9])%$"
PERCENT_FROM_1_TO_100 = "^0*(100|[1-9][0-9]?)%$"
POSITIVE = r"^ *\+?[0-9.]*[1-9]"
NOT_NEGATIVE = "^ *[^ -]"
NETWORK = (
    rf"^(({_OCTET}\.){{3}}{_OCTET}/([12]?[0-9]|3[0-2])"
    r"|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*/([1-9]?[0-9]|1[01][0-9]|12[0-8]))$"
)
ADDRESS = rf"^(({_OCTET}\.){{3}}{_OCTET}|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)$"
NO_STEP_UP = rf"^{_FIRST_SEGMENT}?(/{_FIRST_SEGMENT}?)*$"
RELATIVE = rf"^({_FIRST_SEGMENT}(/{_FIRST_SEGMENT}?)*)?$"
FILE = rf"^{_SEGMENT_OF_FILE}(/{_FIRST_SEGMENT}?)*$"
ABSOLUTE = "^/"
ISCSI_NAME = r"^(iqn(.*iqn)?\.[0-9]{4}-[0-9]{2}\.[-.A-Za-z0-9]+:[^,;*&$|\s]+|eui.[A-Za-z0-9]{16}|naa.[A-Za-z0-9]{32})$"
NO_SLASH = "^[^/]*$"
# Go compares in lower case the part before the first slash.
OF_KUBERNETES = r"^([^/]*\.)?([kK][uU][bB][eE][rR][nN][eE][tT][eE][sS]|[kK]8[sS])\.[iI][oO](/|$)"
VARIABLE_OF_POD = (
    r"^(metadata\.(name|namespace|uid)|spec\.(nodeName|host|serviceAccountName)|status\.(hostIPs?|podIPs?)"
    rf"|{_KEYED})$"
)
FILE_OF_POD = rf"^(metadata\.(name|namespace|uid|labels|annotations)|{_KEYED})$"
AMOUNT_OF_CONTAINER = r"^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.*)$"
HEADER = "^[-A-Za-z0-9]+$"
SEARCH_DOMAIN = rf"^({_SEARCHED}(\.{_SEARCHED})*\.?|\.)$"
SYSCTL_NAME = rf"^({_SYSCTL}[./])*{_SYSCTL}$"
ENV_SOURCE = rf"^({SUBDOMAIN}|({SUBDOMAIN}(-*|\.))?.-)$"
SIGNER = rf"^{LABEL}(\.{LABEL})+/{SUBDOMAIN}$"
SIGNER_DOMAIN = "^[^/]{1,253}/"
DOMAIN_KEY = rf"^{SUBDOMAIN.replace('a-z', 'A-Za-z')}/{_WORD}$"
TRUST_BUNDLE = f"^(.*:)?{SUBDOMAIN}$"
CSI_DRIVER = rf"^{SUBDOMAIN.replace('a-z', 'A-Za-z')}$"
OF_CONTAINERS = f"^({_PLAIN}|hugepages-.+|{_DOMAIN})$"
OF_LIMITS = f"^(storage|{_COMPUTED}|{_COUNTED}|{_DOMAIN})$"
OF_QUOTAS = f"^({_COMPUTED}|{_COUNTED}|{_DOMAIN})$"
LIMIT_TYPE = f"^(Container|PersistentVolumeClaim|Pod|{_DOMAIN})$"
ADDRESS_OR_NONE = rf"^(None|{ADDRESS[1:-1]})?$"
DNS_NAME_OR_NOTHING = rf"^({SUBDOMAIN}\.?)?$"
SERVICE_LABEL = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
WEBHOOK_NAME = rf"^{LABEL}(\.{LABEL}){{2,}}$"
HTTPS_URL = r"^[hH][tT][tT][pP][sS]://[^/?#@]+(/[^?#]*)?\??#?$"
URL_PATH = f"^(/?|(/{SUBDOMAIN})+/?)$"
# The API server checks the parts of `a/b` alone, and accepts a name with more parts.
ATTRIBUTE = rf"^({SUBDOMAIN.replace('a-z', 'A-Za-z')}/[A-Za-z_][A-Za-z0-9_]*|[^/]*/[^/]*/.*)$"
HTTPS = "^https://"
MANAGED_DISK = "^/subscriptions/"
ALL_OR_SUBRESOURCE = r"^\*$|/"
_HOST_AND_PORT = r"([^\[\]:,]*|\[[^\[\],]*\]):[^\[\]:,]*"
HOSTS_AND_PORTS = f"^{_HOST_AND_PORT}(,{_HOST_AND_PORT})*$"
_OF_NETBIOS = r'[^\x00-\x1f\x7f\\/:*?"<>|]'
_OF_DNS = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_OF_USER = r'[^\x00-\x1f\x7f"/\\:;|=,+*?<>@\[\]]'
_NETBIOS = rf'[^\x00-\x1f\x7f\\/:*?"<>|.]{_OF_NETBIOS}{{0,14}}'
WINDOWS_USER = rf"^(({_NETBIOS}|{_OF_DNS}(\.{_OF_DNS})*)\\)?{_OF_USER}*{_OF_USER.removesuffix(']')}. ]{_OF_USER}*$"
WINDOWS_USER_LENGTH = r"^([^\\]{0,255}\\)?[^\\]{1,104}$"
RESERVED = r"\.static\.k8s\.io$"
POLICY_VERSION = r"^(latest|v1\.(0|[1-9][0-9]*))$"

_FORM = "at most 63 letters, digits and inner `-`, `_`, `.`"
_PORT_FORM = "a port name: lower-case letters, digits and single inner hyphens, with at least one letter"
MEANINGS = {
    LABEL_NAME: "a name of lower-case letters, digits and inner hyphens",
    SUBDOMAIN_NAME: "a name of lower-case letters, digits, and inner hyphens and dots",
    KEY: f"a label key: an optional `domain/`, then {_FORM}",
    KEY_OR_NOTHING: f"a label key: an optional `domain/`, then {_FORM}",
    ANNOTATION: f"an annotation key: an optional `domain/`, then {_FORM}",
    VALUE: f"a label value: {_FORM}",
    PORT_NAME: _PORT_FORM,
    PORT_NAME_OR_NOTHING: _PORT_FORM,
    LABEL_OR_NOTHING: "a name of lower-case letters, digits and inner hyphens",
    SUBDOMAIN_OR_NOTHING: "a name of lower-case letters, digits, and inner hyphens and dots",
    ADDRESS: "an IP address",
    NO_STEP_UP: "a path without `..`",
    RELATIVE: "a relative path without `..`",
    FILE: "a relative path without `..`",
    ABSOLUTE: "an absolute path",
    HOSTS_AND_PORTS: "a list of `host:port`, separated by commas",
    WINDOWS_USER: "a user of Windows, such as `ContainerUser` or `DOMAIN\\user`",
    WINDOWS_USER_LENGTH: "a user of at most 104 characters, after a domain of at most 255",
    ISCSI_NAME: (
        "an iSCSI name such as `iqn.2001-04.com.example:disk1`, or `eui.` with 16, or `naa.` with 32 letters and digits"
    ),
    NO_SLASH: "a name without `/`",
    VARIABLE_OF_POD: "a field of the pod that a variable can have, such as metadata.name or metadata.labels['app']",
    FILE_OF_POD: "a field of the pod that a file can have, such as metadata.labels",
    AMOUNT_OF_CONTAINER: "a resource of a container, such as limits.cpu or requests.memory",
    HEADER: "a header name: letters, digits and hyphens",
    SEARCH_DOMAIN: "a DNS domain such as example.com",
    SYSCTL_NAME: "a kernel parameter such as net.core.somaxconn",
    ENV_SOURCE: "a name of lower-case letters, digits, and inner hyphens and dots",
    SIGNER: "a signer such as `example.com/issuer`",
    SIGNER_DOMAIN: "a signer whose domain has at most 253 characters",
    DOMAIN_KEY: f"a key such as `example.com/name`: a domain, `/`, then {_FORM}",
    TRUST_BUNDLE: "a name of lower-case letters, digits, and inner hyphens and dots, after its signer and `:` if any",
    CSI_DRIVER: "a driver name of letters, digits, and inner hyphens and dots",
    VARIABLE: "an environment variable name: printable ASCII without `=`",
    VARIABLE_OR_NOTHING: "the start of an environment variable name: printable ASCII without `=`",
    NOT_PADDED: "a value without spaces at its start and its end",
    FILE_KEY: "a file key: letters, digits, `-`, `_` and `.`, but no `..` at the start",
    PERCENT: "a percentage such as 25%",
    PERCENT_TO_100: "a percentage of at most 100%",
    PERCENT_FROM_1_TO_100: "a percentage from 1% to 100%",
    NOT_NEGATIVE: "an amount of zero or more",
    POSITIVE: "an amount above zero",
    ADDRESS_OR_NONE: "an IP address or `None`",
    DNS_NAME_OR_NOTHING: "a DNS name such as storage.example.com",
    SERVICE_LABEL: "a name of lower-case letters, digits and inner hyphens that begins with a letter",
    WEBHOOK_NAME: "a domain name with at least three parts, such as jobs.mpi.example.com",
    HTTPS_URL: "a URL such as https://example.com/path, without user, query and fragment",
    URL_PATH: "a path such as /validate, with segments of lower-case letters, digits, and inner hyphens and dots",
    HTTPS: "a URL that starts with `https://`",
    MANAGED_DISK: "the ID of a managed disk, which starts with `/subscriptions/`",
    ALL_OR_SUBRESOURCE: "`*` or a subresource such as pods/log",
    ATTRIBUTE: "an attribute with its domain, such as gpu.example.com/numa",
    NETWORK: "a network such as 10.20.0.0/16 or fd00::/8",
    OF_CONTAINERS: "a container resource such as cpu, memory, hugepages-2Mi or example.com/device",
    OF_LIMITS: "a resource such as cpu, storage or example.com/device",
    OF_QUOTAS: "a quota resource such as pods, requests.cpu or requests.example.com/device",
    POLICY_VERSION: "`latest` or a version such as v1.34",
    RESERVED: "a name that ends with `.static.k8s.io`, which is reserved for files of the API server",
    LIMIT_TYPE: "Container, PersistentVolumeClaim or Pod",
}
"""Pattern → the meaning of a string that matches it."""


# apimachinery v0.34.2 pkg/api/resource/quantity.go Quantity.UnmarshalJSON (trims blanks); apimachinery v0.34.2
# pkg/api/resource/quantity.go parseQuantityString; apimachinery v0.34.2 pkg/api/resource/suffix.go
# suffixHandler.interpret. One deviation: the pattern requires a digit; the server reads `m` as zero.
QUANTITY = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)? *$"
# apimachinery v0.34.2 pkg/apis/meta/v1/time.go Time.UnmarshalJSON; apimachinery v0.34.2
# pkg/apis/meta/v1/micro_time.go MicroTime.UnmarshalJSON: RFC 3339, the second with six decimals.
_DAY_AND_TIME = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
)
_ZONE = r"(Z|[+-]([01][0-9]|2[0-4]):[0-5][0-9])$"
TIME = rf"{_DAY_AND_TIME}([.,][0-9]+)?{_ZONE}"
MICRO_TIME = rf"{_DAY_AND_TIME}[.,][0-9]{{6}}{_ZONE}"
# Go's encoding/json reads []byte with base64.StdEncoding, which passes over line ends.
BASE64 = (
    r"^[\r\n]*(([A-Za-z0-9+/][\r\n]*){4})*"
    r"(([A-Za-z0-9+/][\r\n]*){2}=[\r\n]*=[\r\n]*|([A-Za-z0-9+/][\r\n]*){3}=[\r\n]*)?$"
)

# kube-openapi v0.0.0-20250710124328-f3f2b991d03b pkg/validation/strfmt/duration.go ParseDuration: a duration of Go, or
# a number before a unit of `timeUnits` in any case, somewhere in the text.
_MICRO = "\u00b5"  # written out, because patterns in Go have no escape for it
_GO_UNIT = "(ns|us|\u00b5s|\u03bcs|ms|s|m|h)"
_UNITS = ("ns", "us", "\u00b5s", "ms", "s", "m", "h", "hr", "d", "w", "wk")
_BEGINNINGS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _in_any_case(words: tuple[str, ...]) -> str:
    """Return a pattern of words in upper or lower case, without flags, which JSON Schema lacks."""
    letters = ("".join(f"[{a}{a.upper()}]" if a.isascii() else a for a in word) for word in words)
    return f"({'|'.join(letters)})"


DURATION = (
    rf"^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+){_GO_UNIT})+)$"
    rf"|[0-9]\s*({_in_any_case(_UNITS)}([^A-Za-z{_MICRO}]|$)|{_in_any_case(_BEGINNINGS)})"
)
# kube-openapi v0.0.0-20250710124328-f3f2b991d03b pkg/validation/strfmt/default.go UUIDPattern.
UUID = "^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$"

# The pattern that controller-gen writes for a quantity.
CUSTOM_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
QUANTITIES = frozenset({QUANTITY, CUSTOM_QUANTITY})
"""The patterns of quantities in built-in kinds and in custom resources."""

MEANINGS |= {
    QUANTITY: "a quantity such as 500m, 2 or 16Gi",
    CUSTOM_QUANTITY: "a quantity such as 500m, 2 or 16Gi",
    TIME: "a time such as 2026-01-31T12:00:00Z",
    MICRO_TIME: "a time such as 2026-01-31T12:00:00.000000Z",
    BASE64: "base64",
    DURATION: "a duration such as 1h30m, 500ms or 2 days",
    UUID: "a UUID",
}

# In custom resources the server ignores int32 (apiextensions-apiserver v0.34.2 pkg/apiserver/validation/formats.go
# supportedVersionedFormats), but their controllers, written in
# Go, cannot read larger numbers. So the schemas check int32 in custom resources as well.
_RANGES = {
    ("integer", "int32"): {"minimum": -(2**31), "maximum": 2**31 - 1},
    ("integer", "int64"): {"minimum": -(2**63), "maximum": 2**63 - 1},
    # kube-openapi v0.0.0-20250710124328-f3f2b991d03b pkg/validation/validate/values.go IsValueValidAgainstRange: int64,
    # unless the format says less.
    ("integer", ""): {"minimum": -(2**63), "maximum": 2**63 - 1},
}
# kube-openapi v0.0.0-20250710124328-f3f2b991d03b pkg/validation/strfmt/default.go isCIDR: as the networks of built-in
# kinds.
_PATTERNS = {
    ("string", "date-time"): TIME,
    ("string", "byte"): BASE64,
    ("string", "cidr"): NETWORK,
    ("string", "duration"): DURATION,
    ("string", "uuid"): UUID,
}
# Formats that apiextensions-apiserver v0.34.2 pkg/apiserver/validation/formats.go supportedVersionedFormats, without
# hyphens, that no pattern here describes. In custom resources the server ignores formats that this file does not list.
_NOT_DESCRIBED = frozenset(
    (
        *("bsonobjectid", "creditcard", "date", "email", "hexcolor", "hostname", "ipv4", "ipv6", "isbn", "isbn10"),
        *("isbn13", "k8slongname", "k8sshortname", "mac", "rgbcolor", "ssn", "uri", "uuid3", "uuid4", "uuid5"),
    )
)


def format_keywords(kind: str, name: str) -> Schema:
    """Return the keywords that replace a `format` of an upstream schema; empty if the API server does not check it.

    Raises:
        EngineError: no pattern describes the format, so the schemas would accept more than the API server.
    """
    if kind == "integer":
        return dict(_RANGES.get((kind, name), _RANGES[kind, ""]))
    if (kind, name) in _PATTERNS:
        return {"pattern": _PATTERNS[kind, name]}
    if kind != "string" or name.replace("-", "") not in _NOT_DESCRIBED:
        return {}
    raise EngineError(
        (Problem(f"mpigen does not know the format `{name}`", "support it in generator/schemas/patterns.py"),)
    )


_IN_URL = r"(\.{0,2}[^/%.][^/%]*|\.{3,}[^/%]*)"


class NameRule(NamedTuple):
    """The names that a kind allows: their meaning, their pattern and their maximum length."""

    meaning: str
    pattern: str
    longest: int = 253

    @property
    def name(self) -> str:
        """The pattern of a name. It matches the empty name, which counts as missing."""
        return f"^({self.pattern})?$"

    @property
    def beginning(self) -> str:
        """The pattern of a `generateName`, the start of a name."""
        return f"^({self.pattern}-*)?$"


_USUAL = NameRule(MEANINGS[SUBDOMAIN_NAME], SUBDOMAIN)
_DOTLESS = NameRule(MEANINGS[LABEL_NAME], LABEL, 63)
_SERVICE = NameRule(f"{_DOTLESS.meaning} that begins with a letter", "[a-z]([-a-z0-9]*[a-z0-9])?", 63)
_SEGMENT = NameRule("a URL segment: not `.` or `..`, and without `/` and `%`", _IN_URL, 2**16)
PATH_SEGMENT = _SEGMENT.name
_RULES = {
    ("", "Namespace"): _DOTLESS,
    ("", "Service"): _SERVICE,
    ("", "Event"): _SEGMENT,
    ("apps", "StatefulSet"): _DOTLESS,
    ("batch", "CronJob"): _USUAL._replace(longest=52),  # the names of its Jobs are eleven characters longer
    ("batch", "Job"): _USUAL._replace(longest=63),  # a label of its pods
    ("policy", "PodDisruptionBudget"): _SEGMENT,
    ("rbac.authorization.k8s.io", "ClusterRole"): _SEGMENT,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _SEGMENT,
    ("rbac.authorization.k8s.io", "Role"): _SEGMENT,
    ("rbac.authorization.k8s.io", "RoleBinding"): _SEGMENT,
}
_NEWER_RULES = {("", "Service"): ("1.36", _DOTLESS)}
"""(group, kind) → (first minor of Kubernetes, its rule from this minor on).

Source: kubernetes v1.36.3 pkg/features/kube_features.go RelaxedServiceNameValidation; kubernetes v1.36.3
pkg/apis/core/validation/validation.go ValidateServiceCreate
"""
# Reviews and Bindings are not stored. The other kinds have their own rules, or the API server did not serve them.
_UNKNOWN = {
    ("", "Binding"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("coordination.k8s.io", "LeaseCandidate"),
    ("networking.k8s.io", "IPAddress"),
    ("resource.k8s.io", "DeviceTaintRule"),
}
_UNKNOWN_GROUPS = {
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
}

MEANINGS |= {
    **{rule.name: rule.meaning for rule in (_USUAL, _DOTLESS, _SERVICE, _SEGMENT)},
    **{rule.beginning: f"the start of {rule.meaning}" for rule in (_USUAL, _DOTLESS, _SERVICE, _SEGMENT)},
}


def add_name_rules(group: str, kind: str, metadata: Schema, minor: str = "") -> Schema:
    """Narrow `metadata` by the names that a kind allows.

    Args:
        group: the API group of the kind.
        kind: the kind.
        metadata: the schema of `metadata`.
        minor: the version of Kubernetes, such as `1.36`; empty for a custom kind.
    """
    if group in _UNKNOWN_GROUPS or (group, kind) in _UNKNOWN:
        return metadata
    since, newer = _NEWER_RULES.get((group, kind), ("", _USUAL))
    rule = newer if is_reached(minor, since) else _RULES.get((group, kind), _USUAL)
    allowed = {
        "name": {"pattern": rule.name, "maxLength": rule.longest},
        "generateName": {"pattern": rule.beginning, "maxLength": rule.longest},
    }
    return narrow(metadata, {"properties": allowed})
