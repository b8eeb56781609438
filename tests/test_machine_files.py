"""Dockerfile, dev container, Binder, workflows: they parse, and what they refer to is there."""

import glob
import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from checkouts import ROOT, call, choose, tracked

WORKFLOWS = sorted((ROOT / '.github/workflows').glob('*.yml'))


def instructions(wanted):
    """The arguments of each such instruction in the Dockerfile, continued lines joined."""
    text = (ROOT / '.devcontainer/Dockerfile').read_text()
    text = re.sub(r'^\s*#.*\n', '', text, flags=re.MULTILINE)
    return re.findall(rf'^{wanted}\s+(.*)', re.sub(r'\\\n\s*', '', text), re.MULTILINE)


def ignored(name):
    """Does Dockerfile.dockerignore keep this file out of the image?"""
    parts = name.split('/')
    lines = (ROOT / '.devcontainer/Dockerfile.dockerignore').read_text().splitlines()
    anywhere = {line[3:] for line in lines if line.startswith('**/')}
    return parts[0] in lines or bool(anywhere & set(parts))


def test_setup_runs_with_what_the_image_copies_before_it(tmp_path, offline):
    for rest in instructions('COPY'):
        *sources, folder = [word for word in rest.split() if not word.startswith('--')]
        (tmp_path / folder).mkdir(exist_ok=True, parents=True)
        for source in sources if sources != ['.'] else ():
            copied = glob.glob(source, root_dir=ROOT)
            assert copied and not any(map(ignored, copied)), source
            into = f'{source}/.' if (ROOT / source).is_dir() else source
            call(ROOT, 'sh', '-c', f'cp -R {into} "{tmp_path / folder}"')
    (tmp_path / 'README.md').touch()
    locks, _ = choose(tmp_path, **offline, GPU=1, TORCH=1, MGPU_DRIVER='later')
    assert locks == 'tools/locks/base.txt tools/locks/cu112.txt'
    assert (tmp_path / '.uv/build').read_text() == 'pypi\n'  # .venv-torch would be next
    # And what setup loads at its end.
    code = 'import mgpu_helpers; print(mgpu_helpers.__file__)'
    done = call(tmp_path, sys.executable, '-c', code, PYTHONPATH=tmp_path)
    assert Path(done.stdout.strip()).parent == tmp_path / 'mgpu_helpers', done.stderr


def test_image_holds_the_course_and_not_what_was_made_here():
    inside = {name for name in tracked() if not ignored(name)}
    assert {'Makefile', 'README.md', 'conftest.py', 'tests/conftest.py'} <= inside
    assert {str(path.relative_to(ROOT)) for path in (ROOT / 'notebooks').glob('*.ipynb')} <= inside
    for name in ('.venv/bin/python', '.uv/kind', '.git/config', 'build/x', 'tests/__pycache__/x'):
        assert ignored(name), name


def test_what_is_published_is_reached_from_its_own_machine_only():
    """JupyterLab speaks plain HTTP: whoever intercepts its token can run anything."""
    named = set()
    pages = [name for name in tracked() if name.endswith(('.md', '.ipynb', '.yml', 'Dockerfile'))]
    for name in pages:
        text = (ROOT / name).read_text().replace('\\\n', ' ')
        for words in re.findall(r'docker run\b(.*)', text):
            ports = re.findall(r'\s(?:-p|--publish)[ =]*([^\s`]+)', words)
            assert all(port.startswith('127.0.0.1:') for port in ports), f'{name}: {words}'
            assert not re.search(r' -P\b|--publish-all|--net\w*[ =]host', words), f'{name}: {words}'
            named |= {name} if ports else set()
    assert named == {'.devcontainer/Dockerfile', 'book/elsewhere.md'}


def test_dev_container_is_a_stage_of_the_image():
    text = (ROOT / '.devcontainer/devcontainer.json').read_text()
    build = json.loads(re.sub(r'^\s*//.*$', '', text, flags=re.MULTILINE))['build']
    assert (ROOT / '.devcontainer' / build['dockerfile']).exists()
    assert any(rest.endswith(f' AS {build["target"]}') for rest in instructions('FROM'))


def test_binder_has_what_the_image_has_and_builds_with_commands_that_there_are():
    folder = ROOT / '.binder'
    assert (folder / 'runtime.txt').read_text() == 'python-3.11\n'
    packages = re.sub('#.*', '', (folder / 'apt.txt').read_text()).split()
    assert {'libgomp1', 'libquadmath0', 'make'} <= set(packages)
    assert set(packages) <= set(instructions('RUN')[0].split())
    # Anything of these would come before postBuild, and install beside the lock.
    assert not {'environment.yml', 'requirements.txt', 'Dockerfile'} & set(os.listdir(folder))
    script = folder / 'postBuild'
    assert os.access(script, os.X_OK)
    done = call(ROOT, script, NB_PYTHON_PREFIX=None)
    assert done.returncode != 0 and 'NB_PYTHON_PREFIX: is set by repo2docker' in done.stderr


def workflow(path):
    """A workflow, its steps, and the commands in them."""
    described = yaml.safe_load(path.read_text())
    described['on'] = described.pop(True)  # YAML 1.1 reads the word as a yes
    steps = [step for job in described['jobs'].values() for step in job.get('steps', [])]
    return described, steps, '\n'.join(step.get('run', '') for step in steps)


@pytest.mark.parametrize('path', WORKFLOWS, ids=lambda path: path.name)
def test_workflow_may_read_ends_and_calls_what_there_is(path):
    described, steps, commands = workflow(path)
    assert described['permissions'] == {'contents': 'read'}
    assert 'group' in described['concurrency']
    publishes = {'pages': 'write', 'id-token': 'write'}  # and nothing else may write
    for name, job in described['jobs'].items():
        assert job.get('permissions') == (publishes if name == 'publish' else None)
        assert 10 <= job.get('timeout-minutes', 90 if 'uses' in job else 0) <= 180
    for step in steps:
        assert ('run' in step) != ('uses' in step)
        assert re.fullmatch(r'actions/[\w-]+@[0-9a-f]{40}', step.get('uses', f'actions/x@{0:040}'))
        if 'checkout' in step.get('uses', ''):
            assert step['with']['persist-credentials'] is False
    files = re.findall(r'(?<![\w/.])(?:notebooks|tests|tools|\.ci)/[\w./*-]+', commands)
    files += re.findall(r"'([\w./*-]+\.txt)'", path.read_text())
    files += [job['uses'] for job in described['jobs'].values() if 'uses' in job]
    assert files
    for name in files:
        assert glob.glob(name, root_dir=ROOT), name


def test_every_check_runs_on_every_push_and_nobody_elses_code_on_the_gpu_machine():
    described, steps, _ = workflow(ROOT / '.github/workflows/cpu.yml')
    assert {'push', 'pull_request'} < set(described['on'])
    assert not described['on']['push'] and not described['on']['pull_request']
    assert {'bash .ci/run', 'make test SLOW=1'} < {step.get('run') for step in steps}

    described, _, commands = workflow(ROOT / '.github/workflows/gpu.yml')
    # No event that carries a pull request from a fork may reach a self-hosted machine.
    assert set(described['on']) == {'workflow_dispatch', 'schedule', 'push'}
    assert described['on']['push'] == {'branches': ['main']}
    assert 'make test' in commands  # every chapter there is
