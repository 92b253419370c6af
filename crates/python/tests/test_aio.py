"""Esker with asyncio."""

import asyncio

import pytest

import esker
import esker.aio


def test_the_classes_work_with_asyncio(path):
    async def main():
        async with await esker.aio.open(path, transactions="pessimistic", families={"users": {}}) as db:
            await db.put(b"a", b"1")
            await db.update([(b"%04d" % n, b"v") for n in range(1000)])
            assert await db.get(b"a") == b"1" and await db.get(b"x", 5) == 5 and await db.contains(b"a")
            assert await db.multi_get([b"a", b"x"]) == [b"1", None]
            assert len([key async for key in db.keys()]) == 1001
            assert [row async for row in db.items(b"0998", b"a")] == [(b"0998", b"v"), (b"0999", b"v")]
            assert await db.first() == (b"0000", b"v") and await db.last() == (b"a", b"1")
            await db.cf("users").put(b"ada", b"1815")
            async with db.batch() as batch:
                batch[b"b"] = b"2"
                batch.cf("users")[b"grace"] = b"1906"
            async with db.snapshot() as snapshot:
                await db.delete(b"b")
                assert await snapshot.get(b"b") == b"2" and await db.get(b"b") is None
                assert [key async for key in snapshot.cf("users").keys()] == [b"ada", b"grace"]
            async with db.transaction() as transaction:
                await transaction.put(b"c", b"3")
            with pytest.raises(ZeroDivisionError):
                async with db.transaction() as transaction:
                    await transaction.put(b"c", b"4")
                    1 / 0
            assert await db.pop(b"c") == b"3"
            await db.flush()
            await db.compact_range()
        await db.close()
        for call in (db.get(b"a"), db.put(b"a", b""), db.flush(), anext(db.keys())):
            with pytest.raises(esker.Closed):
                await call

    asyncio.run(main())


def test_transact_counts_right_under_contention(path):
    async def main():
        async with await esker.aio.open(path, transactions="optimistic") as db:

            async def increment(transaction):
                count = int(await transaction.get_for_update(b"n", b"0"))
                await transaction.put(b"n", b"%d" % (count + 1))

            async def work():
                for _ in range(10):
                    await db.transact(increment, attempts=1000)

            await asyncio.gather(*(work() for _ in range(5)))
            assert await db.get(b"n") == b"50"

    asyncio.run(main())


def test_a_cancelled_caller_leaves_the_loop_free_and_the_database_whole(path):
    async def main():
        async with await esker.aio.open(path, transactions="pessimistic") as db:
            holder = db.transaction()
            await holder.put(b"a", b"1")
            waiter = db.transaction(lock_timeout=3000)
            task = asyncio.create_task(waiter.put(b"a", b"2"))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await holder.commit()
            await waiter.rollback()
            assert await db.get(b"a") == b"1"

    asyncio.run(main())


def test_commits_do_not_queue_behind_waits_for_their_locks(path):
    async def main():
        async with await esker.aio.open(path, workers=2, transactions="pessimistic") as db:

            async def increment(transaction):
                count = int(await transaction.get_for_update(b"n", b"0"))
                await db.get(b"other")
                await transaction.put(b"n", b"%d" % (count + 1))

            # A commit that queued behind waits would come after their lock timeout.
            options = {"attempts": 1, "lock_timeout": 60_000}
            await asyncio.wait_for(asyncio.gather(*(db.transact(increment, **options) for _ in range(32))), 20)
            assert await db.get(b"n") == b"32"
            holder = db.transaction(lock_timeout=20_000)
            await holder.put(b"n", b"0")
            writes = [asyncio.create_task(db.put(b"n", b"1")) for _ in range(8)]
            await asyncio.sleep(0.05)
            assert await db.get(b"n") == b"32"
            await holder.commit()
            await asyncio.gather(*writes)

    asyncio.run(main())


def test_a_second_close_does_nothing_and_a_block_keeps_its_exception(path):
    async def main():
        async with await esker.aio.open(path, transactions="pessimistic") as db:
            with pytest.raises(ZeroDivisionError):
                async with db.transaction() as transaction:
                    await transaction.put(b"a", b"1")
                    await db.close()
                    1 / 0
            await asyncio.gather(db.close(), db.close())

    asyncio.run(main())
