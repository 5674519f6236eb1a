"""Teams that an update renames: `renamedFrom` of the platform file names the earlier team."""

from __future__ import annotations

from collections.abc import Mapping

from generator.checks.change.removals import Departures
from generator.checks.objects import Change


def find_renames(change: Change) -> Mapping[str, str]:
    """Return earlier name → present name of each team that the update renames.

    Before the update, only the earlier team exists; after it, only the present one; and the update removes the
    namespace with the earlier name. If the update keeps this namespace, for example with the label of the present team,
    the result lacks the team.
    """
    departures = Departures.of(change)
    gone = {item.name for item in change.removed("", "Namespace")} & (departures.before - departures.after)
    new = departures.after - departures.before
    return {earlier: team for team, earlier in departures.renames.items() if earlier in gone and team in new}
