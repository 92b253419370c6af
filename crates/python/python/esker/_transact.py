"""The loop of ``Db.transact``."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ._errors import CONFLICTS

if TYPE_CHECKING:
    from ._esker import Db, Transaction

T = TypeVar("T")

FIRST_PAUSE = 0.0005
LONGEST_PAUSE = 0.1


def pause(attempt: int) -> float:
    """Seconds before attempt ``attempt``: random, and longer from attempt to attempt."""
    return random.uniform(0.5, 1) * min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 20))


def transact(db: Db, function: Callable[[Transaction], T], attempts: int, **options: Any) -> T:
    """Runs ``function`` in transactions until one commits."""
    if attempts < 1:
        raise ValueError("attempts: at least one")
    for attempt in range(1, attempts + 1):
        try:
            with db.transaction(**options) as transaction:
                return function(transaction)
        except CONFLICTS:
            if attempt == attempts:
                raise
            time.sleep(pause(attempt))
    raise AssertionError("the last attempt returns or raises")
