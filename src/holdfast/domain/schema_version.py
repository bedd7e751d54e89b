"""Do this code and that database fit each other? Decided from what it says of itself, without I/O."""

from dataclasses import dataclass

from holdfast.errors import CodeOutdated, SchemaError, SchemaOutdated


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """What a database says of itself.

    `version` is its newest migration, `min_code` the lowest version that code must know to go on working
    with it. `base` names its first migration. `SchemaVersion(0, 0)` is a database that Holdfast has never
    touched.
    """

    version: int
    min_code: int
    base: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.min_code <= self.version:
            raise ValueError(f"a schema at {self.version} cannot need code that knows {self.min_code}")


def check_base(found: SchemaVersion, base: str, schema: str) -> None:
    """Raise if the database began with another first migration than `base`: its numbers count other changes.

    Such a database was made before the first release, whose migrations were replaced by a single one.
    """
    if found.base not in {None, base}:
        raise SchemaError(
            f'database schema "{schema}" was made by a pre-release of Holdfast and cannot be migrated: '
            f'drop it ("drop schema {schema} cascade" deletes its jobs), then run "holdfast migrate"'
        )


def judge(found: SchemaVersion, *, known: int, schema: str) -> None:
    """Return when code that knows migrations up to `known` may work with `found`, else raise what to do.

    A newer database is fine as long as it still serves this code, so a deploy migrates first and rolls the
    code out afterwards. An older one never is: the code would ask for tables that are not there yet.
    """
    if found.min_code > known:
        raise CodeOutdated(found=known, needed=found.min_code, schema=schema)
    if found.version < known:
        raise SchemaOutdated(found=found.version, needed=known, schema=schema)
