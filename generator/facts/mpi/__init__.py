"""The MPI implementations: how each starts ranks, reads hosts, and sends data."""

from __future__ import annotations

from collections.abc import Mapping

from generator.facts.mpi import intel_mpi, mpich, open_mpi
from generator.facts.mpi.implementation import Mpi

MPI: Mapping[str, Mpi] = {
    "openmpi": open_mpi.OPEN_MPI,
    "intel-mpi": intel_mpi.INTEL_MPI,
    "mpich": mpich.MPICH,
}
"""Name in the catalogue of families → implementation."""
