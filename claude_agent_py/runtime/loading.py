"""Loading modules and building models without the garbage collector in between.

What loading makes stays, and none of it is garbage; but it is so much that the collector would walk through everything
there is, several times: a quarter of the time that the first start of a session takes. Knows nothing of what is loaded.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the collector off for as long as this lasts, if it is on. Only around what awaits nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
