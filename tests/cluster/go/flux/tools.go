//go:build tools

// What `go mod tidy` needs to see; `tests/cluster/build.py` builds the package itself.
package tools

import _ "github.com/fluxcd/kustomize-controller"
