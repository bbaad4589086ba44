"""The pieces in docs/deploy/: valid by the schemas of what reads them, and carried out as far as can be here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from activation.confinement import READ_ONLY, as_user, need_namespaces, need_other_users, venv_for_everyone
from activation.places import make_venv, new_folder, run, run_any, write_stack
from activation.shared import bare_venv, target_folder, venv_from_index, wheel
from conftest import CHECKOUT, clean_environment

DEPLOY = CHECKOUT / "docs" / "deploy"
PATH_VALUE = "/opt/gaudi-shadow/gaudi_shadow/inject:/opt/gaudi-shadow"


def tool(name: str) -> Path:
    return venv_from_index("deploy").folder / "bin" / name


def changed(name: str, old: str, new: str, folder: Path) -> Path:
    text = (DEPLOY / name).read_text("utf-8")
    assert old in text
    path = folder / name
    path.write_text(text.replace(old, new), "utf-8")
    return path


def parsed(name: str) -> dict[str, Any]:
    asked = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"
    found: dict[str, Any] = json.loads(run(tool("python"), "-c", asked, DEPLOY / name).stdout)
    return found


def test_all_pieces_put_the_same_two_entries_on_pythonpath() -> None:
    for name in ("kubernetes.yaml", "compose.yaml", "gaudi-shadow.conf"):
        text = (DEPLOY / name).read_text("utf-8")
        assert re.findall(r"/opt/gaudi-shadow/gaudi_shadow/inject\S*", text) == [PATH_VALUE], name
    page = (CHECKOUT / "docs" / "activation.md").read_text("utf-8")
    assert {f"deploy/{path.name}" for path in DEPLOY.iterdir()} == set(re.findall(r"\]\((deploy/[^)]+)\)", page))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_drop_in_is_one_that_systemd_reads_whole(tmp_path: Path) -> None:
    unit, drop_ins = tmp_path / "vllm.service", tmp_path / "vllm.service.d"
    unit.write_text("[Unit]\nDescription=vLLM\n[Service]\nExecStart=/bin/true\n", "utf-8")
    drop_ins.mkdir()
    shutil.copy(DEPLOY / "gaudi-shadow.conf", drop_ins)
    done = run("systemd-analyze", "verify", unit)
    assert done.stdout + done.stderr == ""
    changed("gaudi-shadow.conf", "Environment=VLLM", "Enviroment=VLLM", drop_ins)
    assert "Unknown key" in run_any("systemd-analyze", "verify", unit).stderr


@pytest.mark.slow
def test_the_kubernetes_manifest_is_valid(tmp_path: Path) -> None:
    validate = (tool("kubernetes-validate"), "--strict")
    run(*validate, DEPLOY / "kubernetes.yaml")
    wrong = changed("kubernetes.yaml", "initContainers", "initContainer", tmp_path)
    assert run_any(*validate, wrong).returncode != 0


@pytest.mark.slow
def test_the_kubernetes_manifest_carried_out(tmp_path: Path) -> None:
    """Its two containers as two processes of its user, in a mount namespace with its volumes at their places."""
    need_namespaces()
    need_other_users()
    pod = parsed("kubernetes.yaml")["spec"]["template"]["spec"]
    init, main = pod["initContainers"][0], pod["containers"][0]
    user = pod["securityContext"]["runAsUser"]
    venv = venv_for_everyone(bare_venv())
    (tmp_path / "init").write_text("#!/bin/sh\n" + shlex.join(init["command"]) + "\n", "utf-8")
    manifest = target_folder() / "gaudi_shadow" / "overlays" / "v0.30.0" / "manifest.json"
    places = [mount["mountPath"] for mount in init["volumeMounts"]]
    assert places == ["/opt/wheel", "/opt/gaudi-shadow"]
    command = f"""
set -e
mount -t tmpfs none /opt
mkdir {places[0]} {places[1]}
cp {wheel()} {places[0]}
cp {tmp_path}/init /opt/init
chown {user} {places[1]}
chmod -R a+rX /opt
{shlex.join(as_user(user))} sh /opt/init
cp {manifest} {places[1]}/gaudi_shadow/overlays/v0.30.0/
{READ_ONLY}
cd /
exec {shlex.join(as_user(user))} {venv.python} -m shadow_marker load-plugins
"""
    env = clean_environment(PATH=f"{venv.python.parent}:/usr/bin:/bin")
    env.update({each["name"]: each["value"] for each in main["env"]})
    done = run("unshare", "-m", "sh", "-c", command, env=env)
    answer = json.loads(done.stdout)
    assert answer["patched"] == [True, True] and answer["route"] == "sitecustomize"


@pytest.mark.slow
def test_the_compose_file_is_valid(tmp_path: Path) -> None:
    asked = "import sys; from compose_spec import PyCompose; PyCompose.from_yaml(open(sys.argv[1]).read()).validate()"
    run(tool("python"), "-c", asked, DEPLOY / "compose.yaml")
    wrong = changed("compose.yaml", "read_only:", "readonly:", tmp_path)
    assert run_any(tool("python"), "-c", asked, wrong).returncode != 0
    (service,) = parsed("compose.yaml")["services"].values()
    assert service["environment"]["PYTHONPATH"] == PATH_VALUE
    assert service["volumes"] == ["./gaudi-shadow:/opt/gaudi-shadow:ro"]


@pytest.mark.slow
def test_the_ray_cluster_file_is_valid(tmp_path: Path) -> None:
    (tmp_path / "gaudi-shadow").mkdir()
    asked = (
        "import sys, yaml; from ray.autoscaler._private.util import prepare_config, validate_config;"
        "validate_config(prepare_config(yaml.safe_load(open(sys.argv[1]))))"
    )
    python = venv_from_index("ray").python
    run(python, "-c", asked, DEPLOY / "ray-cluster.yaml", cwd=tmp_path)
    wrong = changed("ray-cluster.yaml", "max_workers", "max_worker", tmp_path)
    assert run_any(python, "-c", asked, wrong, cwd=tmp_path).returncode != 0


@pytest.mark.slow
def test_the_dockerfile_is_valid(tmp_path: Path) -> None:
    run(tool("hadolint"), DEPLOY / "Dockerfile")
    wrong = changed("Dockerfile", "--no-cache-dir", "", tmp_path)
    assert run_any(tool("hadolint"), wrong).returncode != 0


@pytest.mark.slow
def test_the_dockerfiles_step_ends_the_build_where_the_fixes_do_not_fit(tmp_path: Path) -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    (step,) = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    (source, place) = re.findall(r"^COPY (\S+) (\S+)$", text, re.MULTILINE)[0]
    (tmp_path / "image").mkdir()
    assert wheel().match(source)
    shutil.copy(wheel(), tmp_path / "image")
    venv = make_venv(tmp_path / "venv")
    write_stack(venv.site_packages)
    # The image's pip stands for the test environment's, which is told for which Python it works.
    step = step.replace(place, f"{tmp_path}/image/").replace("-m pip", f"-m pip --python {venv.python}", 1)
    first, second = step.split(" && ")
    env = clean_environment(PIP_NO_INDEX="1", PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    run("sh", "-c", first, env=env)
    checked = run_any("sh", "-c", second, env={**env, "PATH": f"{venv.python.parent}:{env['PATH']}"}, cwd=tmp_path)
    assert checked.returncode == 2 and "drifted" in checked.stdout


@pytest.mark.slow
def test_the_dockerfiles_check_accepts_a_real_release(release_root: Path) -> None:
    venv = make_venv(new_folder() / "venv")
    write_stack(venv.site_packages, release=False)
    venv.pip("install", "--no-deps", wheel())
    done = run_any(venv.python, "-m", "gaudi_shadow", "check", env=clean_environment(PYTHONPATH=str(release_root)))
    assert done.returncode == 0, done.stdout
