"""Fixtures, and the number of examples of property tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import esker

settings.register_profile(
    "esker",
    max_examples=int(os.environ.get("ESKER_EXAMPLES", "25")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("esker")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: Path):
    with esker.open(path) as db:
        yield db
