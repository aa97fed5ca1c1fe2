"""Small matrices on one thread.

A factorisation of a few hundred rows takes less time than two threads need to meet, and on a busy machine one waits
for the other at every block: 0.2 ms become 300. One thread also rounds the same way whatever the number of cores, and
rounding can decide which of several minima training ends in.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """Hold NumPy's and SciPy's linear algebra to one thread, in a `with` block."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (its library must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
