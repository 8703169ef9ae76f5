"""Several environments built at once."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

from ..errors import BuildFailed, IndexFailed
from .build_process import Cancelled
from .building import BuildContext, build
from .recipe import Recipe
from .store import Built

#: Downloads share one line and unpacking shares one disk; more at once would only be slower each.
_AT_ONCE = 4


def build_all(
    context: BuildContext, recipes: Mapping[str, Recipe], progress: Callable[[str, str], None]
) -> dict[str, Built | BuildFailed]:
    """Build what is not built; answers by name the environment, or why there is none.

    `progress` hears a name and a phrase, from several threads. An interrupt ends all builds, leaves nothing
    half built, and goes on.
    """
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="build") as pool:
        futures: dict[str, Future[Built]] = {}
        for name, recipe in recipes.items():
            futures[name] = pool.submit(build, context, recipe, _told(name, progress))
        try:
            wait(futures.values())
        except BaseException:
            context.cancelled.set()
            for future in futures.values():
                future.cancel()
            raise
    return {name: _result(future) for name, future in futures.items()}


def _told(name: str, progress: Callable[[str, str], None]) -> Callable[[str], None]:
    return lambda phrase: progress(name, phrase)


def _result(future: Future[Built]) -> Built | BuildFailed:
    try:
        return future.result()
    except BuildFailed as error:
        return error
    except IndexFailed as error:
        return BuildFailed(str(error))
    except OSError as error:
        return BuildFailed(f"an environment cannot be built: {error.strerror or error}")
    except Cancelled:
        return BuildFailed("the build was interrupted")
