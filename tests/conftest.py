"""Every test runs with key reuse as an error (see `worldfork.randomness.audit`), and no example has a deadline."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from typechecking import begin_a_test, check_annotations_of_what_is_imported

os.environ.setdefault("MUJOCO_GL", "disabled")  # physics only; rendering tests choose a backend themselves
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests compile far more than they compute: what they prove does not depend on how well the compiler optimises.
QUICKLY_COMPILED = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",  # half of what is left
)
os.environ.setdefault("XLA_FLAGS", " ".join(QUICKLY_COMPILED))
# Nor on who compiled it: all processes of one run share what they compile, and nothing of an earlier run.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="worldfork-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

check_annotations_of_what_is_imported()
# A shell starts what runs in its background with Ctrl-C ignored, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes says how busy the machine is, and nothing about what is tested.
settings.register_profile("worldfork", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("worldfork")

# Files whose tests share what takes seconds to make. In front, no worker takes over a part of one, to make it anew.
TOGETHER = ("test_pretraining.py", "test_agent.py", "test_plugin.py", "test_replay_command.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in TOGETHER)


def pytest_collection_finish() -> None:
    """What is imported stays: nothing of it is looked through for garbage again, a hundred times in a run,
    and the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_runtest_logstart() -> None:
    begin_a_test()


@pytest.fixture(autouse=True)
def audited_keys() -> Iterator[None]:
    from worldfork import randomness  # not before the settings above

    with randomness.audit():
        yield
