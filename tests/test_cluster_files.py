"""Chapter 4's files in training/: the script trains, and the job files start it as they should."""

import os
import re
import runpy
import shlex
import sys

import pytest
import yaml
from launching import ROOT, Launcher, Started, refused

from mgpu_helpers.cluster.placement import THIS, read_hosts

FOLDER = ROOT / 'training'
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
    """Return the hash of the parameters that each rank printed."""
    return dict(re.findall(r'(rank \d+ of \d+): parameters ([0-9a-f]{64})', text))


def test_bad_arguments_are_refused(monkeypatch, capsys):
    monkeypatch.setattr('sys.argv', ['train_cluster.py', '--lr', '0'])
    with pytest.raises(SystemExit):
        runpy.run_path(str(FOLDER / 'train_cluster.py'))['parse']()
    assert '--lr must be a number above 0, not 0' in capsys.readouterr().err


def test_the_hostfile_works_as_it_stands():
    (host,) = read_hosts(FOLDER / 'hostfile')
    assert (host.ip, host.here) == (THIS.ip, True) and host.slots >= 2


SLURM = (FOLDER / 'slurm.sh').read_text()
OPTIONS = dict(re.findall('^#SBATCH --([^=]+)=(.*)$', SLURM, re.MULTILINE))


def test_slurm_reads_every_option_of_the_script_and_ends_the_job_with_the_first_that_fails():
    lines = SLURM.splitlines()
    # Slurm reads no options after the first line that is a command.
    command = next(i for i, line in enumerate(lines) if line and not line.startswith('#'))
    assert max(i for i, line in enumerate(lines) if line.startswith('#SBATCH')) < command
    assert 'srun --kill-on-bad-exit=1' in SLURM  # or the others never notice that one has failed


@pytest.fixture
def batch(tmp_path, port):
    """Start slurm.sh as Slurm would, with the job id and the number of tasks that it asks for."""
    srun = tmp_path / 'srun'
    srun.write_text(SRUN)
    srun.chmod(0o755)

    def start(*args, **env):
        told = {
            'PATH': f'{tmp_path}{os.pathsep}{os.environ["PATH"]}',
            'SLURM_NTASKS': OPTIONS['ntasks'],
            'SLURM_JOB_ID': '4711',
            'SLURMD_NODENAME': 'localhost',
            'PYTHON': sys.executable,
            'PORT': str(port),
        }
        return Started('bash', FOLDER / 'slurm.sh', *args, env=told | env)

    return start


def test_the_slurm_script_trains(batch):
    with batch(*SHORT) as job:
        status, out, err = job.end()
    assert status == 0, err
    hashes = digests(out)
    assert len(hashes) == 2 and len(set(hashes.values())) == 1 and out.count('test acc: ') == 1


@pytest.mark.parametrize('tasks', [4, 300])
def test_the_ports_of_a_job_are_not_those_of_the_next(batch, tmp_path, tasks):
    (tmp_path / 'srun').write_text('#!/bin/sh\necho "$@"\n')
    taken = set()
    for number in (4711, 4712, 4713):
        with batch(SLURM_NTASKS=str(tasks), SLURM_JOB_ID=str(number), PORT='') as job:
            first = int(re.search(r'--port (\d+)', job.end()[1])[1])
        taken |= set(range(first, first + tasks))
    assert len(taken) == 3 * tasks and min(taken) >= 12000 and max(taken) < 32768


def test_the_kubernetes_file_has_a_pod_for_each_role_and_they_know_each_other():
    parts = yaml.safe_load_all((FOLDER / 'kubernetes.yaml').read_text())
    parts = {part['kind']: part for part in parts}
    name, service = (parts[kind]['metadata']['name'] for kind in ('Job', 'Service'))
    job, names = parts['Job']['spec'], parts['Service']['spec']
    pod = job['template']['spec']
    (container,) = pod['containers']
    command = container['command'] + container['args']
    option = dict(zip(command, command[1:]))
    roles = 1 + int(option['-s']) + int(option['-n'])
    assert job['completions'] == job['parallelism'] == roles
    assert option['--index'] == '$(JOB_COMPLETION_INDEX)'
    told = [word.replace('$(JOB_COMPLETION_INDEX)', str(roles)) for word in command]
    assert f'index {roles} stands for nobody' in refused(*told[3:])  # all else is understood
    # It ends with the first that fails.
    assert (job['backoffLimit'], pod['restartPolicy']) == (0, 'Never')
    # As the image's own user, with nothing that Pod Security's level "restricted" would refuse.
    image = (ROOT / '.devcontainer/Dockerfile').read_text()
    user = int(re.search(r'^USER (\d+)$', image, re.MULTILINE)[1])
    context = pod['securityContext']
    assert user > 0 and (context['runAsNonRoot'], context['runAsUser']) == (True, user)
    assert context['seccompProfile'] == {'type': 'RuntimeDefault'}
    expected = {'allowPrivilegeEscalation': False, 'capabilities': {'drop': ['ALL']}}
    assert container['securityContext'] == expected
    # Kubernetes puts this label on the pods of a job of that name; nobody else reaches them.
    mine = {'job-name': name}
    assert pod['topologySpreadConstraints'][0]['labelSelector']['matchLabels'] == mine
    assert (names['selector'], names['clusterIP']) == (mine, 'None')
    assert (pod['subdomain'], option['--root']) == (service, f'{name}-0.{service}')
    assert names['ports'][0]['port'] == int(option['--port'])
    only = {'podSelector': {'matchLabels': mine}}
    rules = {'policyTypes': ['Ingress'], 'ingress': [{'from': [only]}]}
    assert parts['NetworkPolicy']['spec'] == only | rules


def test_the_readme_names_every_file_and_shows_commands_that_parse():
    text = (FOLDER / 'README.md').read_text()
    for path in FOLDER.iterdir():
        assert path.name == 'README.md' or path.is_dir() or f'({path.name})' in text
    command = re.search(r'`(python -m mgpu_helpers launch --hostfile [^`]*)`', text)[1]
    words = shlex.split(command)
    with Launcher(*words[3:], *SHORT) as launcher:
        status, out, err = launcher.end()
    hashes = digests(out)
    assert status == 0 and sorted(hashes) == ['rank 0 of 2', 'rank 1 of 2'], err
    assert len(set(hashes.values())) == 1 and out.count('test acc: ') == 1
