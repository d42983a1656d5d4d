# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Fixtures: each makes what the test asks for and takes it down with every check that
holds for all tests (harness.Router.stop)."""
import glob
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import harness  # noqa: E402
import peer     # noqa: E402


def _log(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()[-6000:]
    except OSError:
        return ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and "tmp_path" in getattr(item, "funcargs", {}):
        for path in sorted(glob.glob(str(item.funcargs["tmp_path"] / "*.err"))
                           + glob.glob(str(item.funcargs["tmp_path"] / "*.access"))):
            report.sections.append((os.path.basename(path), _log(path)))
    return report


@pytest.fixture
def backend():
    """backend(on_request=..., ...) -> peer.Backend"""
    made = []

    def make(*args, **kwargs):
        made.append(peer.Backend(*args, **kwargs))
        return made[-1]

    yield make
    for b in made:
        b.close()


@pytest.fixture
def sim(tmp_path):
    """sim(nodes=..., args=[...]) -> harness.Sim"""
    made = []

    def make(**kwargs):
        made.append(harness.Sim(str(tmp_path), name="gpusim%d" % len(made), **kwargs))
        return made[-1]

    yield make
    for s in made:
        s.kill()


@pytest.fixture
def router(tmp_path, backend, sim):
    """router(pools, **config) -> harness.Router, ready. `pools`: a list of pools, or of backend URLs."""
    made = []

    def make(pools, ready=True, **config):
        if isinstance(pools[0], str):
            pools = [harness.pool(pools)]
        config["pools"] = pools
        made.append(harness.Router(str(tmp_path), config, ready=ready, name="kvsteerd%d" % len(made)))
        return made[-1]

    yield make
    errors = []
    for r in made:
        try:
            r.stop()
        except AssertionError as e:
            errors.append(str(e))
    assert not errors, "\n".join(errors)
