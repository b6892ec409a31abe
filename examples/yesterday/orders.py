"""Makes the files of this example: orders and customers as they come from a shop, one order with a slip in it.

python orders.py [how many orders]
"""

from __future__ import annotations

import random
import sys
from pathlib import Path


def main(folder: Path, count: int) -> None:
    chance = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    wrong = count * 7 // 9
    with open(folder / "orders.csv", "w") as file:
        file.write("id,customer,kind,amount\n")
        for number in range(1, count + 1):
            kind = "refund" if number % 20 == 0 else "sale"
            amount = chance.randint(500, 15_000) / 100
            if number == wrong:
                kind, amount = "sale", -float(count * 100)
            file.write(f"{number},c{chance.randint(1, 200)},{kind},{amount}\n")
    with open(folder / "customers.csv", "w") as file:
        file.write("customer,city\n")
        for number in range(1, 201):
            file.write(f"c{number},{('Bonn', 'Kiel', 'Ulm', 'Jena')[number % 4]}\n")


if __name__ == "__main__":
    main(Path("data"), int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
