"""Moves money between accounts in transactions that run again after conflicts."""

import tempfile
import threading

import esker


def main() -> None:
    with esker.open(tempfile.mkdtemp() + "/bank", transactions="optimistic") as db:
        accounts = esker.Coded[str, int](db, key="str", value="json")
        accounts.update({"ada": 100, "grace": 100})

        def transfer(transaction: esker.Transaction) -> None:
            mine = accounts.over(transaction)
            mine["ada"] -= 1
            mine["grace"] += 1

        def work() -> None:
            for _ in range(10):
                db.transact(transfer, attempts=1000, isolation="serializable")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(dict(accounts.items()))


if __name__ == "__main__":
    main()
