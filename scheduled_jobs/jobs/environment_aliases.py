"""What a track stands for tonight: most are environments as typed, `latest` is the newest release."""

from configuration.settings import Settings
from runner.environments.interpreter import look_at
from runner.environments.package_index import offered
from runner.environments.recipe import Recipe
from runner.errors import IndexFailed

LATEST = "latest"


def resolve_alias(track: str, settings: Settings) -> str:
    """The environment that a track means now; raises IndexFailed if the newest release is unknown.

    An environment that is declared under that name is meant before it.
    """
    return track if track != LATEST or track in settings.environments else newest_release()


def newest_release() -> str:
    """The newest release that the package index offers to this machine; raises IndexFailed."""
    # Without `pre` an index answers with releases only.
    releases = offered(Recipe(), look_at(""))
    if not releases:
        raise IndexFailed("the package index offers no release of PyTorch")
    return releases[-1]
