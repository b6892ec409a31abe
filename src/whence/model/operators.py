"""Spark's operators and functions by what they do. Every room that reads plans goes by these: sql/ asks which rows,
watch/ which columns; a new Spark that adds one of a kind is one change here."""

NAMES_ONLY = ("SubqueryAlias", "ResolvedHint", "PipeOperator", "CollectMetrics", "SQLFunctionNode")
"""Rows and columns go through as they are; only a name, advice, or a count on the side is added."""

LOOKED_THROUGH = (*NAMES_ONLY, "View")
"""The same, and what a view is made of."""

PLACEMENT = ("Repartition", "RepartitionByExpression", "RebalancePartitions")
"""Rows go elsewhere, unchanged."""

PYTHON_BATCHES = ("MapInPandas", "MapInArrow", "PythonMapInArrow")
PYTHON_GROUPS = ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow")
PYTHON_COGROUPS = ("FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow")
"""Python functions over many rows at once: what they do inside cannot be seen in the plan."""

RANKS_BEFORE = ("Rank", "DenseRank", "RowNumber")
RANKS_WHOLE = ("PercentRank", "CumeDist", "NTile")
"""Window functions that only look at where a row stands: among the rows before it, or in its whole partition."""
