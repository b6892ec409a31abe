"""The table of lineage rules: one function for each kind of plan node.

A rule takes the node and a `Builder` (through which it annotates the inputs) and gives the node's plan with the
identities of its links beside its own output. It must not change the rows of the operator: neither their number nor
their values. To add one, write the function and name its node here; the contract tests run over the whole table.
"""

from __future__ import annotations

from collections.abc import Callable

from whence.model import operators
from whence.sql.blocks import Annotated
from whence.sql.builder import Builder
from whence.sql.rules.aggregate import aggregate, deduplicate, distinct
from whence.sql.rules.generate import expand
from whence.sql.rules.given import given
from whence.sql.rules.join import join
from whence.sql.rules.limit import limit
from whence.sql.rules.narrow import in_place, look_through, project, sort
from whence.sql.rules.python import generate_or_table_function, map_batches, map_cogroups, map_groups
from whence.sql.rules.sample import numbered, sample
from whence.sql.rules.scan import loop, nothing, scan
from whence.sql.rules.setops import except_, intersect
from whence.sql.rules.union import union
from whence.sql.rules.window import window
from whence.sql.sources import SCANS
from whence.sql.tree import Node

Rule = Callable[[Node, Builder], Annotated]

RULES: dict[str, Rule] = {
    # sources
    **dict.fromkeys(SCANS, scan),
    "OneRowRelation": nothing,
    "UnionLoop": loop,
    # names only
    **dict.fromkeys(operators.NAMES_ONLY, look_through),
    "View": look_through,
    # rows of an earlier trace
    "Given": given,
    # the row itself
    "Project": project,
    "Filter": in_place,
    **dict.fromkeys(operators.PLACEMENT, in_place),
    "Sort": sort,
    "GlobalLimit": limit,
    "Offset": limit,
    "Sample": sample,
    "AttachDistributedSequence": numbered,
    "Generate": generate_or_table_function,
    "Expand": expand,
    # several rows, or none
    "Join": join,
    "Union": union,
    "Aggregate": aggregate,
    "Distinct": distinct,
    "Deduplicate": deduplicate,
    # Python functions over many rows
    **dict.fromkeys(operators.PYTHON_BATCHES, map_batches),
    **dict.fromkeys(operators.PYTHON_GROUPS, map_groups),
    **dict.fromkeys(operators.PYTHON_COGROUPS, map_cogroups),
    "Window": window,
    "Intersect": intersect,
    "Except": except_,
}
