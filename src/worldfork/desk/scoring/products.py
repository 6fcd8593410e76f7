"""Matrix products on one thread."""

import contextlib
from collections.abc import Iterator

__all__ = ["on_one_thread"]


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Products start no threads of their own. All of scoring's are small: threads that wait for one another take
    more time than they save. And a product that is dealt out to as many threads as there are cores may be rounded
    otherwise on another machine."""
    import threadpoolctl  # a machine that fits thresholds and scores nothing need not have it

    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield
