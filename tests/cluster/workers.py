"""Schedule tests that share a control plane on one worker: `pytest -n 2 --dist loadscope`."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_SHARED = {
    "examples": ("test_acceptance", "test_jobs", "test_reconciliation", "test_sdk"),
    "governed": ("test_access", "test_audit", "test_endings", "test_personas"),
}
"""Platform → the modules that share it on one worker: an example, or the platform with a user for each persona."""


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Keep each module on one worker, and modules that share a platform, because each deployment takes long.

    Tests of real MPI and of networks stay together too: their jobs are kept between modules, and would not survive a
    test that restarts Kueue with other settings. Tests with a kubelet share its node, and
    run before or after other tests of large jobs, because both need all cores.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """Return the name that all tests have in common which run on one worker."""
    file = nodeid.partition("::")[0]
    if file == "tests/cluster/mpi/test_large_jobs.py":
        return "kubelet"
    for folder in ("kubelet", "mpi", "network"):
        if file.startswith(f"tests/cluster/{folder}/"):
            return folder
    for platform, modules in _SHARED.items():
        if file.endswith(tuple(f"tests/cluster/{name}.py" for name in modules)):
            return platform
    return file
