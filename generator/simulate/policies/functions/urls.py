"""URLs: k8s.io/apiserver v0.34.2 pkg/cel/library/urls.go. They are declared, and not run: Go reads them its own way."""

from __future__ import annotations

from generator.simulate.policies.signatures import URL, Function

FUNCTIONS = (
    Function("url", ("string",), URL, None, is_member=False),
    Function("isURL", ("string",), "bool", None, is_member=False),
    *(
        Function(name, (URL,), "string", None)
        for name in ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath")
    ),
    Function("getQuery", (URL,), "map<string,list<string>>", None),
)
