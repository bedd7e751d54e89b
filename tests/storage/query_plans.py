"""How Postgres would run a statement: its generic plan, what it reads, with statistics right or wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import psycopg

from holdfast.postgres.statement import Statement

Statistics = Literal["fresh", "none", "of an emptied table"]

_OURS = "select oid from pg_class where relnamespace = 'holdfast'::regnamespace"
# An emptied table whose pages are still there is the worst: the planner then expects nothing of it, whatever
# its size has become meanwhile, and every way to read nothing costs the same.
_WRONG: dict[Statistics, tuple[str, ...]] = {
    "fresh": (),
    "none": (
        f"delete from pg_statistic where starelid in ({_OURS})",
        f"update pg_class set reltuples = -1, relpages = 0 where oid in ({_OURS})",
    ),
    "of an emptied table": (
        f"delete from pg_statistic where starelid in ({_OURS})",
        f"update pg_class set reltuples = 0, relpages = 1 where oid in ({_OURS})",
    ),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes of an executed plan. `blocks` is what they touched of shared buffers, rather too much than
    too little: a subplan is counted with the node that asks it, too.
    """

    nodes: tuple[dict[str, Any], ...]

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self._done() if "Index Name" in node}

    @property
    def relations(self) -> set[str]:
        return {node["Relation Name"] for node in self.nodes if "Relation Name" in node}

    @property
    def scanned(self) -> set[str]:
        """Tables that were read from end to end."""
        return {node["Relation Name"] for node in self._done() if node["Node Type"] == "Seq Scan"}

    @property
    def most_sorted(self) -> float:
        """The most rows that went into a sort."""
        sorts = (node for node in self._done() if node["Node Type"] in ("Sort", "Incremental Sort"))
        return max((child["Actual Rows"] for node in sorts for child in node["Plans"]), default=0)

    @property
    def blocks(self) -> int:
        return sum(_own_blocks(node) for node in self.nodes)

    @property
    def heaviest(self) -> list[str]:
        """The nodes that touched most blocks: the reason why a guard has failed."""
        heavy = sorted(self.nodes, key=_own_blocks, reverse=True)[:6]
        return [
            f"{_own_blocks(node)} blocks: {node['Node Type']} {node.get('Index Name', '')} "
            f"{node.get('Relation Name', '')}, {node['Actual Rows']:g} rows in {node['Actual Loops']} loops, "
            f"{node.get('Index Cond', '')} {node.get('Filter', '')}"
            for node in heavy
        ]

    def _done(self) -> Iterator[dict[str, Any]]:
        return (node for node in self.nodes if node["Actual Loops"])


def explained(connection: psycopg.Connection[Any], statement: Statement[Any], statistics: Statistics) -> Plan:
    """Run it as a prepared statement of a session like ours, and take everything back."""
    text, values = statement.numbered()
    places = ", ".join(["%s"] * len(values))
    execute = f"execute guarded({places})" if values else "execute guarded"
    try:
        with connection.transaction(force_rollback=True):
            for command in _WRONG[statistics]:
                connection.execute(command)
            connection.execute(f"prepare guarded as {text}")
            cursor = psycopg.ClientCursor(connection)
            cursor.execute(f"explain (analyze, buffers, timing off, format json) {execute}", values)
            [([root],)] = cursor.fetchall()
    finally:
        connection.execute("deallocate all")
    return Plan(tuple(_flat(root["Plan"])))


def _flat(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _flat(child)


def _own_blocks(node: dict[str, Any]) -> int:
    if node["Node Type"] == "CTE Scan":
        return 0  # what it waits for is counted where it is done
    below = sum(
        _all_blocks(child)
        for child in node.get("Plans", [])
        if child["Parent Relationship"] in ("Outer", "Inner", "Member", "Subquery")
    )
    return max(_all_blocks(node) - below, 0)


def _all_blocks(node: dict[str, Any]) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])
