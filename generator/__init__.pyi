# The public API: each name that `from generator import …` offers, its module, and the version of mpigen that added it.
# `python -m tests.docs` writes docs/reference/api.md from this file and from the docstrings. `__all__` has the names
# above the group Results.
# isort: off

# Flow: the steps of `mpigen synth`, `mpigen plan` and `mpigen validate` as functions, with their options and findings.
from generator.pipeline import load as load  # since 0.1.0
from generator.pipeline import render as render  # since 0.1.0
from generator.pipeline import judge as judge  # since 0.1.0
from generator.pipeline import synth as synth  # since 0.1.0
from generator.pipeline import plan as plan  # since 0.1.0
from generator.pipeline import validate as validate  # since 0.1.0
from generator.config.load import load_platform as load_platform  # since 0.1.0
from generator.stages.synthesis import Choices as Choices  # since 0.1.0
from generator.stages.validation import Subject as Subject  # since 0.1.0
from generator.checks.finding import Finding as Finding  # since 0.1.0

# Platform: the classes that an `mpigen_platform.py` creates and extends.
from generator.config.platform import Platform as Platform  # since 0.1.0
from generator.components.app import App as App  # since 0.1.0
from generator.components.runtimes import MpiRuntime as MpiRuntime  # since 0.1.0
from generator.runtimes.additions import Volume as Volume  # since 0.1.0
from generator.components.constructs import Component as Component  # since 0.1.0
from generator.manifests import Manifest as Manifest  # since 0.1.0
from generator.patches.select import select as select  # since 0.1.0

# Jobs: what a cluster offers to jobs, new jobs, and what becomes of them.
from generator.training import catalogue as catalogue  # since 0.1.0
from generator.jobs.request import JobRequest as JobRequest  # since 0.1.0
from generator.jobs.job import new_job as new_job  # since 0.1.0
from generator.training import check_jobs as check_jobs  # since 0.1.0
from generator.training import compile_jobs as compile_jobs  # since 0.1.0
from generator.training import queues as queues  # since 0.1.0
from generator.training import can_i as can_i  # since 0.1.0

# Checks: the names that a file of your own checks imports.
from generator.checks.registry import check as check  # since 0.1.0
from generator.checks.finding import Breach as Breach  # since 0.1.0
from generator.checks.registry import ERROR as ERROR  # since 0.1.0
from generator.checks.registry import WARNING as WARNING  # since 0.1.0
from generator.checks.registry import INFO as INFO  # since 0.1.0
from generator.checks.objects import Objects as Objects  # since 0.1.0
from generator.checks.objects import Change as Change  # since 0.1.0
from generator.adoption.settings import load_suite as load_suite  # since 0.1.0

# Errors: the exceptions for invalid input. An error has all problems of the input, not only the first.
from generator.errors import MpigenError as MpigenError  # since 0.1.0
from generator.errors import Problem as Problem  # since 0.1.0
from generator.errors import ConfigError as ConfigError  # since 0.1.0
from generator.errors import InputError as InputError  # since 0.1.0
from generator.errors import DocumentError as DocumentError  # since 0.1.0
from generator.errors import OutputError as OutputError  # since 0.1.0
from generator.errors import EngineError as EngineError  # since 0.1.0
from generator.errors import SimulationError as SimulationError  # since 0.1.0

# Results: the types of results and of options. `from generator import *` omits them.
from generator.stages.synthesis import Synthesis as Synthesis  # since 0.1.0
from generator.stages.synthesis import Rendered as Rendered  # since 0.1.0
from generator.stages.validation import Validation as Validation  # since 0.1.0
from generator.jobs.catalogue import Catalogue as Catalogue  # since 0.1.0
from generator.jobs.job import NewJob as NewJob  # since 0.1.0
from generator.jobs.request import Mount as Mount  # since 0.1.0
from generator.jobs.request import Download as Download  # since 0.1.0
from generator.training import JobVerdict as JobVerdict  # since 0.1.0
from generator.training import Permission as Permission  # since 0.1.0
from generator.stages.planning import Planned as Planned  # since 0.1.0
from generator.effects.effect import Effect as Effect  # since 0.1.0
from generator.effects.effect import Risk as Risk  # since 0.1.0
from generator.checks.run import Checked as Checked  # since 0.1.0
from generator.adoption.adoption import Outcome as Outcome  # since 0.1.0
from generator.release.write import Written as Written  # since 0.1.0
from generator.checks.finding import Severity as Severity  # since 0.1.0
from generator.checks.finding import Generated as Generated  # since 0.1.0
from generator.adoption.adoption import Adoption as Adoption  # since 0.1.0
from generator.checks.registry import Suite as Suite  # since 0.1.0

# Hooks: the values that hooks of `MpiRuntime` get and return. `from generator import *` omits them.
from generator.runtimes.additions import Role as Role  # since 0.1.0
from generator.runtimes.additions import Container as Container  # since 0.1.0
from generator.runtimes.additions import Probe as Probe  # since 0.1.0
from generator.runtimes.additions import SecretKey as SecretKey  # since 0.1.0
from generator.runtimes.additions import ConfigMapKey as ConfigMapKey  # since 0.1.0
from generator.runtimes.additions import PodField as PodField  # since 0.1.0
from generator.runtimes.additions import Pod as Pod  # since 0.1.0
from generator.runtimes.additions import Security as Security  # since 0.1.0
from generator.runtimes.additions import Job as Job  # since 0.1.0

# Sections: the sections of platform.yaml as classes, for a platform in Python. `from generator import *` omits them.
from generator.config.model.access import Access as Access  # since 0.1.0
from generator.config.model.access import PlatformAccess as PlatformAccess  # since 0.1.0
from generator.config.model.access import Sessions as Sessions  # since 0.1.0
from generator.config.model.cluster import Cluster as Cluster  # since 0.1.0
from generator.config.model.cluster import GitOps as GitOps  # since 0.1.0
from generator.config.model.cluster import Notification as Notification  # since 0.1.0
from generator.config.model.cluster import OpenShiftAI as OpenShiftAI  # since 0.1.0
from generator.config.model.cluster import Versions as Versions  # since 0.1.0
from generator.config.model.fabric_parts import Addresses as Addresses  # since 0.1.0
from generator.config.model.fabric_parts import FabricShare as FabricShare  # since 0.1.0
from generator.config.model.fabric_parts import Nics as Nics  # since 0.1.0
from generator.config.model.fabric_parts import NodeSetup as NodeSetup  # since 0.1.0
from generator.config.model.fabrics import Fabric as Fabric  # since 0.1.0
from generator.config.model.devices import DeviceType as DeviceType  # since 0.1.0
from generator.config.model.families import MpiFamily as MpiFamily  # since 0.1.0
from generator.config.model.isolation import ApiServer as ApiServer  # since 0.1.0
from generator.config.model.isolation import Egress as Egress  # since 0.1.0
from generator.config.model.isolation import Guard as Guard  # since 0.1.0
from generator.config.model.isolation import Isolation as Isolation  # since 0.1.0
from generator.config.model.isolation import Metrics as Metrics  # since 0.1.0
from generator.config.model.policies import Admission as Admission  # since 0.1.0
from generator.config.model.policies import Allowances as Allowances  # since 0.1.0
from generator.config.model.policies import Images as Images  # since 0.1.0
from generator.config.model.policies import Jobs as Jobs  # since 0.1.0
from generator.config.model.policies import Policies as Policies  # since 0.1.0
from generator.config.model.policies import Residency as Residency  # since 0.1.0
from generator.config.model.policies import Retention as Retention  # since 0.1.0
from generator.config.model.policies import SchedulePods as SchedulePods  # since 0.1.0
from generator.config.model.policies import StorageClass as StorageClass  # since 0.1.0
from generator.config.model.policies import Workloads as Workloads  # since 0.1.0
from generator.config.model.patches import Operation as Operation  # since 0.1.0
from generator.config.model.patches import Patch as Patch  # since 0.1.0
from generator.config.model.patches import Target as Target  # since 0.1.0
from generator.config.model.pools import Pool as Pool  # since 0.1.0
from generator.config.model.pools import Provisioning as Provisioning  # since 0.1.0
from generator.config.model.pools import Taint as Taint  # since 0.1.0
from generator.config.model.queues import MultiKueue as MultiKueue  # since 0.1.0
from generator.config.model.queues import Priority as Priority  # since 0.1.0
from generator.config.model.queues import Queues as Queues  # since 0.1.0
from generator.config.model.queues import Transformation as Transformation  # since 0.1.0
from generator.config.model.queues import WaitForPodsReady as WaitForPodsReady  # since 0.1.0
from generator.config.model.queues import WorkerCluster as WorkerCluster  # since 0.1.0
from generator.config.model.removals import Removal as Removal  # since 0.1.0
from generator.config.model.removals import Retirement as Retirement  # since 0.1.0
from generator.config.model.roles import RoleRule as RoleRule  # since 0.1.0
from generator.config.model.roles import TeamRole as TeamRole  # since 0.1.0
from generator.config.model.runtimes import Checkpoint as Checkpoint  # since 0.1.0
from generator.config.model.runtimes import Placement as Placement  # since 0.1.0
from generator.config.model.runtimes import Resilience as Resilience  # since 0.1.0
from generator.config.model.runtimes import Runtime as Runtime  # since 0.1.0
from generator.config.model.runtimes import RuntimeVolume as RuntimeVolume  # since 0.1.0
from generator.config.model.schedules import JobDownload as JobDownload  # since 0.1.0
from generator.config.model.schedules import JobVolume as JobVolume  # since 0.1.0
from generator.config.model.schedules import Schedule as Schedule  # since 0.1.0
from generator.config.model.schedules import ScheduledJob as ScheduledJob  # since 0.1.0
from generator.config.model.schedules import SecretVariable as SecretVariable  # since 0.1.0
from generator.config.model.scheduling import NodeAffinity as NodeAffinity  # since 0.1.0
from generator.config.model.scheduling import NodePreference as NodePreference  # since 0.1.0
from generator.config.model.scheduling import NodeRequirement as NodeRequirement  # since 0.1.0
from generator.config.model.scheduling import Toleration as Toleration  # since 0.1.0
from generator.config.model.servers import FabricDefaults as FabricDefaults  # since 0.1.0
from generator.config.model.servers import ServerType as ServerType  # since 0.1.0
from generator.config.model.secrets import Connection as Connection  # since 0.1.0
from generator.config.model.secrets import ExternalSecret as ExternalSecret  # since 0.1.0
from generator.config.model.secrets import PullSecret as PullSecret  # since 0.1.0
from generator.config.model.secrets import Remote as Remote  # since 0.1.0
from generator.config.model.secrets import Secrets as Secrets  # since 0.1.0
from generator.config.model.secrets import Store as Store  # since 0.1.0
from generator.config.model.secrets import StoreAccount as StoreAccount  # since 0.1.0
from generator.config.model.tenants import Cohort as Cohort  # since 0.1.0
from generator.config.model.tenants import DataVolume as DataVolume  # since 0.1.0
from generator.config.model.tenants import Limits as Limits  # since 0.1.0
from generator.config.model.tenants import Relaxation as Relaxation  # since 0.1.0
from generator.config.model.tenants import Reservation as Reservation  # since 0.1.0
from generator.config.model.tenants import Tenant as Tenant  # since 0.1.0
