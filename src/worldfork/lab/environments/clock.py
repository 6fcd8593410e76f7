"""MuJoCo's stopwatch, stopped: it takes a tenth to a third of a physics step, and nobody reads it.

MuJoCo asks its clock, the C variable `mjcb_time`, around every stage of every physics step, to say in `data.timer`
how long each took; where there is none it does not ask. Its Python bindings install one and can not take it out:
`mujoco.set_mjcb_time(None)` puts theirs back. So the variable itself is set to NULL.
"""

import ctypes
import pathlib

import mujoco

__all__ = ["stop_clock"]


def stop_clock() -> bool:
    """Take MuJoCo's clock away, and say whether it is gone; from then on its timers read zero in this process.

    A clock that somebody has set with `mujoco.set_mjcb_time` is theirs and stays, and so does every clock where
    MuJoCo's library has another name than Linux's. No number depends on it.
    """
    library = pathlib.Path(mujoco.__file__).with_name(f"libmujoco.so.{mujoco.__version__}")
    if mujoco.get_mjcb_time() is not None or not library.is_file():
        return False
    try:
        # The library is loaded already: this finds it, and its variable.
        ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time").value = None
    except (OSError, ValueError):
        return False
    return True
