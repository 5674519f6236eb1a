"""Test that one command of an admin starts a platform on a cluster, and that Git drives all later changes.

The tests run in the order of this file, on one cluster: each test continues where the test before ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from generator.gitops.health import health_settings
from tests.cluster import argocd, trees, webhook
from tests.cluster.argocd import API_VERSION, NAMESPACE, Application
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.site import LOCAL, Site, argo_object, following, write_example
from tests.cluster.trees import Deployed
from tests.cluster.webhook import Webhook
from tests.docs.pages import DOCS, blocks

pytestmark = pytest.mark.cluster
NAME = "cpu-kubernetes"
ROOT = f"{NAME}-root"
CLUSTER = f"{NAME}-cluster"
POLICIES = f"{NAME}-policies"
TEAM = f"{NAME}.team-sim"
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "namespace": NAMESPACE}}


def from_page(title: str, part: str) -> Body:
    """Return the content of the code block of bootstrap-a-cluster.md that has a title and contains a text."""
    texts = [block.text for block in blocks(DOCS / "tasks/bootstrap-a-cluster.md") if block.title == title]
    (text,) = [text for text in texts if part in text]
    body: Body = yaml.safe_load(text)
    return body


@pytest.fixture(scope="module")
def alerts(admin: Client) -> Iterator[Webhook]:
    """Return the webhook of bootstrap-a-cluster.md, of which Argo CD has a ConfigMap with the URL."""
    body = from_page("notifications.yaml", "argocd-notifications-cm")
    with webhook.receiving() as found:
        service = body["data"]["service.webhook.alerts"]
        body["data"]["service.webhook.alerts"] = re.sub(r"https://\S+", found.url, service)
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, "tests")
        admin.apply(body, "alerts")
        yield found
        admin.apply({**body, "data": {}}, "alerts")


@pytest.fixture(scope="module")
def platform_site(
    admin: Client,
    cluster: Cluster,
    on_the_cluster: list[Deployed],
    tmp_path_factory: pytest.TempPathFactory,
    alerts: Webhook,
) -> Iterator[Site]:
    """Return a cluster with Argo CD and without a release."""
    assert alerts.url
    trees.remove_all(admin, on_the_cluster)
    folder = tmp_path_factory.mktemp("bootstrap")
    notifications = from_page("platform.yaml", "notifications:")["gitops"]["notifications"]
    source = write_example(NAME, folder / "repository", {**LOCAL, "notifications": notifications})
    with (
        argocd.running(cluster, folder / "empty", with_notifications=True) as argo,
        following(argo, source) as site,
    ):
        yield site
        restore(admin)


def restore(admin: Client) -> None:
    """Remove the settings from the ConfigMap of Argo CD, as an admin does with an empty file."""
    admin.apply(SETTINGS, "mpigen")
    assert not health_settings().keys() & admin.read(SETTINGS)["data"].keys()


def bootstrap(site: Site) -> None:
    """Apply the folder `argocd/bootstrap/` as an admin does."""
    for file in sorted((site.folder / "argocd" / "bootstrap").glob("*.yaml")):
        for body in yaml.safe_load_all(file.read_text()):
            site.argo.admin.apply(body, "mpigen")


def health_of(application: Application, kind: str) -> set[tuple[str, str, str]]:
    """Return name, status and message of the health of all objects of a kind in an Application."""
    rows = [row for row in application.status.get("resources", []) if row["kind"] == kind]
    return {(row["name"], row["health"]["status"], row["health"].get("message", "")) for row in rows if "health" in row}


def revisions(admin: Client) -> dict[str, str]:
    """Return Application → the revision that its manifest names."""
    items = admin.items(API_VERSION, "Application", NAMESPACE)
    return {item["metadata"]["name"]: item["spec"]["source"]["targetRevision"] for item in items}


def test_the_files_of_the_bootstrap_start_all_applications(platform_site: Site) -> None:
    admin = platform_site.argo.admin
    before = admin.read(SETTINGS)
    bootstrap(platform_site)
    platform_site.argo.wait_until_synced(platform_site.commit, {ROOT, *platform_site.names}, 240)
    after = admin.read(SETTINGS)
    assert after["data"] == {**before["data"], **health_settings(), "resource.respectRBAC": "normal"}
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    checked = platform_site.argo.applications()[TEAM]
    assert health_of(checked, "ClusterQueue") == {("team-sim", "Healthy", "Can admit new workloads")}


def test_an_inactive_queue_makes_only_the_application_of_its_team_degraded(
    platform_site: Site, alerts: Webhook
) -> None:
    """Argo CD Notifications sends a message about this Application to the webhook of the page."""
    alerts.messages.clear()
    repository, others = platform_site.argo.repository, {ROOT, CLUSTER, POLICIES}
    queue = platform_site.folder / "tenants/team-sim/queue.yaml"
    access = platform_site.folder / "tenants/team-sim/access.yaml"
    good, rights = queue.read_text(), access.read_text()
    queue.write_text(re.sub(r"(?m)^(\s+- name: )cpu$", r"\1absent", good, count=1))
    access.write_text(rights.replace("name: sim\n", "name: press\n"))
    assert (queue.read_text(), access.read_text()) != (good, rights)
    commit = repository.commit("A flavor that no release has")
    message = "the ClusterQueue is inactive, so its jobs stay pending (FlavorNotFound): Can't admit new workloads: "
    message += "references missing ResourceFlavor(s): absent."

    def degraded(found: dict[str, Application]) -> bool:
        team = found[TEAM]
        is_degraded = team.status.get("health", {}).get("status") == "Degraded"
        queues = health_of(team, "ClusterQueue") == {("team-sim", "Degraded", message)}
        return is_degraded and team.is_synced and queues

    platform_site.argo.wait_for(commit, degraded)
    found = platform_site.argo.applications()
    assert all(found[name].is_synced and found[name].is_healthy for name in others)
    wait_until("the webhook has a message", lambda: bool(alerts.messages))
    assert {(message["application"], message["health"]) for message in alerts.messages} == {(TEAM, "Degraded")}
    repository.git("revert", "--no-edit", "HEAD")
    platform_site.commit = repository.git("rev-parse", "HEAD").strip()
    platform_site.argo.wait_until_synced(platform_site.commit, {ROOT, *platform_site.names})


def test_the_root_application_applies_a_promotion(platform_site: Site) -> None:
    admin, repository = platform_site.argo.admin, platform_site.argo.repository
    repository.git("tag", f"{NAME}/1.0.0")
    pinned = platform_site.commit
    text = platform_site.file.read_text()
    platform_site.publish(text.replace("grant: true", f"grant: true\n  revision: {NAME}/1.0.0"))
    names = {POLICIES, CLUSTER, TEAM}
    platform_site.argo.refresh()
    expected = {ROOT: "HEAD", **dict.fromkeys(names, f"{NAME}/1.0.0")}
    wait_until("the root Application changes all others", lambda: revisions(admin) == expected, 120)

    def synced(found: dict[str, Application]) -> bool:
        at = {name: each.revision for name, each in found.items()}
        good = all(each.is_synced and each.is_healthy for each in found.values())
        return good and at == {ROOT: platform_site.commit, **dict.fromkeys(names, pinned)}

    platform_site.argo.wait_for(pinned, synced, names=names)


def test_the_deletion_of_the_root_application_deletes_no_other(platform_site: Site) -> None:
    admin = platform_site.argo.admin
    admin.delete(argo_object("Application", ROOT))
    wait_until("the root Application is gone", lambda: ROOT not in platform_site.argo.applications())
    assert platform_site.argo.applications().keys() == {POLICIES, CLUSTER, TEAM}
    assert all(admin.exists(item.body) for item in platform_site.tree if item.file.startswith("tenants/"))
