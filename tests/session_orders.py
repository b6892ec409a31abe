"""The data of the tests in session/, for fixtures and for programs that start before any fixture does."""

from __future__ import annotations

from pathlib import Path


def write_orders(home: Path) -> Path:
    """Two Parquet files of orders; customer 1 has three, in both files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = home / "orders"
    folder.mkdir()
    rows = [(1, 1, 10), (2, 2, 20), (3, 1, 30), (4, 3, 40), (5, 1, 50), (6, 2, 60)]
    for number, part in enumerate((rows[:3], rows[3:])):
        ids, customers, amounts = zip(*part, strict=True)
        table = pa.table({"id": ids, "customer": customers, "amount": amounts})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder
