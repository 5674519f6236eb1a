"""Patterns of what built-in fields hold, and their meanings in words.

Sources, in k8s.io/apimachinery v0.34.2 pkg/util/validation/validation.go (keys, labels, ports) and k8s.io/kubernetes
v1.34.2 pkg/apis/core/helper/helpers.go (resources), pkg/apis/core/validation (file keys, networks). What stands before
the `/` of a label's key may have 253 letters: that length alone is not checked.
"""

from __future__ import annotations

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

LABEL_NAME = f"^{LABEL}$"
SUBDOMAIN_NAME = f"^{SUBDOMAIN}$"
KEY = rf"^({SUBDOMAIN}/)?{_WORD}$"
KEY_OR_NOTHING = rf"^(({SUBDOMAIN}/)?{_WORD})?$"
ANNOTATION = rf"^({SUBDOMAIN.replace('a-z', 'A-Za-z')}/)?{_WORD}$"
VALUE = rf"^({_WORD})?$"
PORT_NAME = f"^{_PORT}$"
PORT_NAME_OR_NOTHING = f"^({_PORT})?$"
VARIABLE = "^[ -<>-~]+$"
FILE_KEY = r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$"
PERCENT = "^[0-9]+%$"
NOT_NEGATIVE = "^ *[^ -]"
NETWORK = (
    rf"^(({_OCTET}\.){{3}}{_OCTET}/([12]?[0-9]|3[0-2])"
    r"|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*/([1-9]?[0-9]|1[01][0-9]|12[0-8]))$"
)
OF_CONTAINERS = f"^({_PLAIN}|hugepages-.+|{_DOMAIN})$"
OF_LIMITS = f"^(storage|{_COMPUTED}|{_COUNTED}|{_DOMAIN})$"
OF_QUOTAS = f"^({_COMPUTED}|{_COUNTED}|{_DOMAIN})$"
LIMIT_TYPE = f"^(Container|PersistentVolumeClaim|Pod|{_DOMAIN})$"
POLICY_VERSION = r"^(latest|v1\.(0|[1-9][0-9]*))$"

_FORM = "letters, digits and inner `-`, `_`, `.`, up to 63"
_PORT_FORM = "the name of a port: lower-case letters, digits and single inner hyphens"
MEANINGS = {
    LABEL_NAME: "a name of lower-case letters, digits and inner hyphens",
    SUBDOMAIN_NAME: "a name of lower-case letters, digits, and inner hyphens and dots",
    KEY: f"a label key: {_FORM}, and before them `domain/` if any",
    KEY_OR_NOTHING: f"a label key: {_FORM}, and before them `domain/` if any",
    ANNOTATION: f"an annotation key: {_FORM}, and before them `domain/` if any",
    VALUE: f"a label value: {_FORM}",
    PORT_NAME: _PORT_FORM,
    PORT_NAME_OR_NOTHING: _PORT_FORM,
    VARIABLE: "the name of a variable: printable ASCII without `=`",
    FILE_KEY: "a key: letters, digits, `-`, `_` and `.`, of which it has no two first",
    PERCENT: "a percentage such as 25%",
    NOT_NEGATIVE: "zero or more",
    NETWORK: "a network such as 10.20.0.0/16 or fd00::/8",
    OF_CONTAINERS: "a resource of containers: cpu, memory, ephemeral-storage, hugepages-…, or one with its domain",
    OF_LIMITS: "a resource such as cpu or storage, or one with its domain",
    OF_QUOTAS: "a resource of quotas such as pods or requests.cpu, or one with its domain",
    POLICY_VERSION: "`latest` or a version such as v1.34",
    LIMIT_TYPE: "Container, PersistentVolumeClaim or Pod",
}
"""Pattern → what fits it."""
