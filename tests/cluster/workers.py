"""Schedule tests that share a control plane on one worker: `pytest -n 2 --dist loadscope`."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_OF_EXAMPLES = ("test_acceptance", "test_jobs", "test_reconciliation", "test_sdk")


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Keep all tests of the examples on one worker, because deploying them takes longest, and each module too.

    Tests of real MPI and of networks stay together too: their jobs are kept between modules, and would not survive a
    test that restarts Kueue with other settings.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        for folder in ("mpi", "network"):
            if file.startswith(f"tests/cluster/{folder}/"):
                return folder
        return "examples" if file.endswith(tuple(f"tests/cluster/{name}.py" for name in _OF_EXAMPLES)) else file
