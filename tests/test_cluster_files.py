"""The folder `cluster/`: its script trains, and its files start it as they should."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml
from launching import (
    ROOT,
    Launcher,
    Started,
    free_first_port,
    nobody_listens,
    refused,
)

from mgpu_helpers.cluster.hosts import THIS, read_hosts

FOLDER = ROOT / 'cluster'
SHORT = ('--epochs', '1', '--num-examples', '512')
# In the place of Slurm's: the tasks of a job, all on this machine, with what Slurm sets for each.
SRUN = f"""#!{sys.executable}
import os, subprocess, sys
words = sys.argv[1:]
while words[0].startswith('-'):
    words.pop(0)
tasks = [
    subprocess.Popen(words, env=os.environ | {{'SLURM_PROCID': str(i)}})
    for i in range(int(os.environ['SLURM_NTASKS']))
]
sys.exit(max([abs(task.wait()) for task in tasks]))
"""


def digests(text):
    """Give what each rank said of its parameters, by rank."""
    return dict(re.findall(r'(rank \d+ of \d+): parameters ([0-9a-f]{64})', text))


def epochs(text):
    return [float(acc) for acc in re.findall(r'epoch \d+: .*test acc: ([\d.]+)', text)]


@pytest.mark.slow
@pytest.mark.parametrize(
    'workers, servers, args',
    [
        (3, 2, ('--batch-size', '100')),  # which three do not divide
        (2, 1, ('--kind', 'dist_device_sync')),
        (2, 1, ('--kind', 'dist_async')),
    ],
)
def test_other_numbers_and_kinds_of_store(workers, servers, args):
    args = ('-n', workers, '-s', servers, '--', 'python', 'cluster/train.py', *SHORT, *args)
    with Launcher('launch', *args) as launcher:
        status, out, err = launcher.end()
    assert status == 0 and not err, err
    found = digests(out)
    assert sorted(found) == [f'rank {i} of {workers}' for i in range(workers)]
    assert len(epochs(out)) == 1 and (len(set(found.values())) == 1 or 'dist_async' in args)


def test_bad_arguments_end_a_run_at_once(monkeypatch, capsys):
    with Launcher('launch', '-n', 2, '--', 'python', 'cluster/train.py', '--lr', 0) as launcher:
        status, out, err = launcher.end()
    assert status == 2 and 'Error: worker ' in err
    assert '--lr must be a number above 0, not 0' in out
    spec = importlib.util.spec_from_file_location('its_script', FOLDER / 'train.py')
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for args, words in (
        (('--epochs', '0'), '--epochs must be at least 1, not 0'),
        (('--batch-size', '-1'), '--batch-size must be at least 1, not -1'),
        (('--kind', 'local'), "invalid choice: 'local'"),
    ):
        monkeypatch.setattr(sys, 'argv', ['train.py', *args])
        with pytest.raises(SystemExit, match='2'):
            script.main()
        assert words in capsys.readouterr().err


def test_the_script_is_short():
    assert len((FOLDER / 'train.py').read_text().splitlines()) <= 100


def test_the_hostfile_works_as_it_stands():
    (host,) = read_hosts(FOLDER / 'hostfile')
    assert (host.ip, host.here) == (THIS.ip, True) and host.slots >= 2
    commented = [line[2:] for line in (FOLDER / 'hostfile').read_text().splitlines()]
    examples = [line for line in commented if ' slots=' in line and '.168.' in line]
    assert len(examples) == 2


# ------------------------------------------------------------------------------------------- Slurm


def slurm_options():
    lines = (FOLDER / 'slurm.sh').read_text().splitlines()
    return dict(
        line.removeprefix('#SBATCH --').split('=', 1)
        for line in lines
        if line.startswith('#SBATCH')
    )


def test_the_slurm_script_is_one_and_asks_for_one_task_per_role():
    subprocess.run(['bash', '-n', FOLDER / 'slurm.sh'], check=True)
    lines = (FOLDER / 'slurm.sh').read_text().splitlines()
    assert lines[0] == '#!/bin/bash'
    # Slurm reads no options after the first line that is a command.
    command = next(i for i, line in enumerate(lines) if line and not line.startswith('#'))
    assert max(i for i, line in enumerate(lines) if line.startswith('#SBATCH')) < command
    options = slurm_options()
    assert options['ntasks'] == '4' and options['nodes'] == '2'
    assert {'job-name', 'time', 'output', 'cpus-per-task', 'mem-per-cpu'} <= options.keys()
    assert os.access(FOLDER / 'slurm.sh', os.X_OK)
    (srun,) = (line for line in lines if line.startswith('exec srun'))
    assert '--kill-on-bad-exit=1' in srun  # or the others never notice that one has failed


@pytest.fixture
def batch(tmp_path):
    """Start slurm.sh as Slurm does, in a job with the number and the tasks that it asks for."""
    srun = tmp_path / 'srun'
    srun.write_text(SRUN)
    srun.chmod(0o755)
    first = free_first_port(8)

    def start(*args, **env):
        told = {
            'PATH': f'{tmp_path}{os.pathsep}{os.environ["PATH"]}',
            'SLURM_NTASKS': slurm_options()['ntasks'],
            'SLURM_JOB_ID': '4711',
            'SLURMD_NODENAME': 'localhost',
            'PYTHON': sys.executable,
            'PORT': str(first),
        }
        return Started('bash', FOLDER / 'slurm.sh', *args, env=told | env)

    yield start
    nobody_listens(range(first, first + 8))


def test_the_slurm_script_trains(batch):
    with batch(*SHORT) as job:
        status, out, err = job.end()
    assert status == 0, err
    found = digests(out)
    assert len(found) == 2 and len(set(found.values())) == 1 and len(epochs(out)) == 1


@pytest.mark.slow
def test_the_slurm_script_takes_other_numbers_and_its_own_port(batch):
    with batch(*SHORT, SERVERS='2', SLURM_NTASKS='6', PORT='') as job:
        status, out, err = job.end()
    assert status == 0, err
    assert len(digests(out)) == 3


def test_a_job_of_too_few_tasks_is_refused(batch):
    with batch(SLURM_NTASKS='2') as job:
        status, out, err = job.end()
    assert status != 0 and 'the number of workers must be at least 1, not 0' in err


# -------------------------------------------------------------------------------------- Kubernetes


@pytest.fixture(scope='module')
def kubernetes():
    parts = list(yaml.safe_load_all((FOLDER / 'kubernetes.yaml').read_text()))
    return {part['kind']: part for part in parts}


def command_of(kubernetes):
    (container,) = kubernetes['Job']['spec']['template']['spec']['containers']
    return container['command'] + container['args']


def option(command, name):
    return command[command.index(name) + 1]


def test_the_service_gives_names_to_the_pods_of_the_job(kubernetes):
    service, job = kubernetes['Service'], kubernetes['Job']
    assert service['apiVersion'] == 'v1' and job['apiVersion'] == 'batch/v1'
    assert service['spec']['clusterIP'] == 'None'
    assert service['spec']['publishNotReadyAddresses'] is True
    # Kubernetes puts this label on the pods of a job of that name.
    mine = {'job-name': job['metadata']['name']}
    assert service['spec']['selector'] == mine
    pod = job['spec']['template']['spec']
    assert pod['subdomain'] == service['metadata']['name']
    assert pod['topologySpreadConstraints'][0]['labelSelector']['matchLabels'] == mine
    root = f'{job["metadata"]["name"]}-0.{service["metadata"]["name"]}'
    command = command_of(kubernetes)
    assert option(command, '--root') == root
    assert int(option(command, '--port')) == service['spec']['ports'][0]['port']


def test_the_job_has_a_pod_for_each_role_and_ends_with_the_first_that_fails(kubernetes):
    spec, command = kubernetes['Job']['spec'], command_of(kubernetes)
    roles = 1 + int(option(command, '-s')) + int(option(command, '-n'))
    assert spec['completionMode'] == 'Indexed'
    assert spec['completions'] == spec['parallelism'] == roles
    assert spec['backoffLimit'] == 0 and spec['activeDeadlineSeconds'] > 0
    pod = spec['template']['spec']
    assert pod['restartPolicy'] == 'Never' and pod['terminationGracePeriodSeconds'] <= 30
    (container,) = pod['containers']
    assert {'cpu', 'memory'} <= container['resources']['requests'].keys()
    assert {'cpu', 'memory'} <= container['resources']['limits'].keys()
    assert all(isinstance(word, str) for word in command)
    assert option(command, '--index') == '$(JOB_COMPLETION_INDEX)'
    told = [word.replace('$(JOB_COMPLETION_INDEX)', str(roles)) for word in command]
    assert f'index {roles} stands for nobody' in refused(*told[3:])  # all else is understood


def test_only_the_pods_of_the_job_reach_each_other(kubernetes):
    policy, job = kubernetes['NetworkPolicy'], kubernetes['Job']['metadata']['name']
    mine = {'matchLabels': {'job-name': job}}
    assert policy['apiVersion'] == 'networking.k8s.io/v1'
    assert policy['spec']['podSelector'] == mine and policy['spec']['policyTypes'] == ['Ingress']
    assert policy['spec']['ingress'] == [{'from': [{'podSelector': mine}]}]


@pytest.mark.slow
def test_the_containers_command_trains(kubernetes):
    """Each pod's, with the index that Kubernetes puts in, and this machine as pod 0."""
    command = command_of(kubernetes)
    first = free_first_port(kubernetes['Job']['spec']['completions'])
    here = {'mgpu-0.mgpu': '127.0.0.1', option(command, '--port'): str(first)}
    pods = []
    try:
        for index in reversed(range(kubernetes['Job']['spec']['completions'])):
            words = [here.get(w, w).replace('$(JOB_COMPLETION_INDEX)', str(index)) for w in command]
            assert words[0] == 'python' and words[-2] == '--epochs'
            env = {'JOB_COMPLETION_INDEX': str(index), 'HOSTNAME': f'mgpu-{index}'}
            words[0], words[-1] = sys.executable, '1'
            pods.append(Started(*words, '--num-examples', '512', env=env))
        ends = [pod.end() for pod in pods]
    finally:
        for pod in pods:
            pod.__exit__()
    assert [status for status, _, _ in ends] == [0] * len(pods), ends
    found = digests(''.join(out for _, out, _ in ends))
    assert len(found) == 2 and len(set(found.values())) == 1
    nobody_listens(range(first, first + len(pods)))


# ------------------------------------------------------------------------------------------ README


def test_the_readme_names_every_file_and_shows_commands_that_parse():
    text = (FOLDER / 'README.md').read_text()
    for path in FOLDER.iterdir():
        assert path.name == 'README.md' or path.is_dir() or f'({path.name})' in text
    command = re.search(r'`(python -m mgpu_helpers launch --hostfile [^`]*)`', text)[1]
    words = shlex.split(command)
    with Launcher(*words[3:], *SHORT) as launcher:
        status, out, err = launcher.end()
    found = digests(out)
    assert status == 0 and sorted(found) == ['rank 0 of 2', 'rank 1 of 2'], err
    assert len(set(found.values())) == 1 and len(epochs(out)) == 1
