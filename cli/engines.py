"""Which engine carries the fleet of this place, if there is one."""

from fleet.engine import Engine
from workflows.app_context import AppContext
from workflows.errors import UsageError


def engine_of(here: AppContext, *, looks: bool = False) -> Engine:
    """The engine that [fleet] names; with `looks` one that is only asked what there is.

    Raises UsageError where no fleet is wanted, and JobError where the engine cannot be had.
    """
    # Only a fleet needs an engine, and no other command should wait for it.
    fleet, data_dir = here.settings.fleet, here.places.data_dir
    if fleet.engine == "ray":
        from fleet.ray.engine import RayEngine

        return RayEngine(str(fleet.address), fleet.token(data_dir), data_dir / "fleet", looks=looks)
    if fleet.engine == "slurm":
        from fleet.slurm.engine import SlurmEngine

        shared = here.settings.slurm.folder or data_dir / "fleet" / "slurm"
        return SlurmEngine(here.settings.slurm, shared, data_dir / "environments", here.settings.file)
    where = here.settings.file.name if here.settings.file else "pyrometer.toml"
    raise UsageError(f"no fleet is wanted here: {where} has no [fleet] with an engine; see docs/fleet.md")
