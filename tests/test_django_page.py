"""docs/how-to/django.md is a project: its files are written as they stand, its tests and worker run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from support.doc_examples import DOCS

PAGE = (DOCS / "how-to/django.md").read_text("utf-8")

# What every Django project has, and the page does not repeat.
USUAL = {
    "manage.py": """
import os, sys
from django.core.management import execute_from_command_line
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
execute_from_command_line(sys.argv)
""",
    "shop/__init__.py": "",
    "shop/settings.py": """
import os
SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["orders"]
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", **{
    name: os.environ.get("SHOP_" + name, "") for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")
}, "TEST": {"NAME": os.environ["SHOP_NAME"] + "_django"}}}
TEST_RUNNER = "shop.test_runner.Runner"
""",
    "shop/urls.py": """
from django.urls import path
from orders.views import buy
urlpatterns = [path("buy", buy)]
""",
    "orders/__init__.py": "",
    "orders/models.py": """
from django.db import models
class Order(models.Model):
    id = models.BigAutoField(primary_key=True)
    item = models.TextField()
    receipt_sent = models.BooleanField(default=False)
""",
    "orders/migrations/__init__.py": "",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE, re.DOTALL))
    assert len(files) == PAGE.count("```python")
    for name, text in {**USUAL, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def call(project: Path, dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a person would, in the project's directory."""
    parts = conninfo_to_dict(dsn)
    of_django = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    named = {f"SHOP_{name}": str(parts[key]) for name, key in of_django.items()}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**os.environ, **named, "HOLDFAST_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.machine  # starts several interpreters
def test_the_tests_of_the_page_pass(project: Path, dsn: str) -> None:
    call(project, dsn, "manage.py", "makemigrations", "orders")
    done = call(project, dsn, "-W", "error::ResourceWarning", "manage.py", "test", "--noinput")
    assert "Ran 3 tests" in done.stderr


@pytest.mark.machine  # starts several interpreters
def test_its_worker_runs_what_a_view_has_enqueued(project: Path, dsn: str) -> None:
    call(project, dsn, "manage.py", "makemigrations", "orders")
    call(project, dsn, "manage.py", "migrate")
    buying = "from django.test import Client; Client().post('/buy', {'item': 'tea'})"
    call(project, dsn, "manage.py", "shell", "--verbosity", "0", "-c", buying)
    call(project, dsn, "-m", "holdfast.cli", "worker", "-A", "shop.worker:app", "--once")
    with psycopg.connect(dsn) as connection:
        [(state,)] = connection.execute("select state from holdfast.jobs").fetchall()
        [(is_sent,)] = connection.execute("select receipt_sent from orders_order").fetchall()
    assert (state, is_sent) == ("succeeded", True)
