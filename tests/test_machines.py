"""Several machines for real: network namespaces with an address, a way and an sshd of their own."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from launching import ADDING, ENDLESS, ROOT, SECONDS, Launcher

SSHD = shutil.which('sshd', path='/usr/sbin:/sbin:' + os.environ['PATH'])
# In a network that is reserved for documentation, so nobody's.
HERE, FIRST, SECOND, NOBODY = (f'203.0.113.{i}' for i in (254, 11, 12, 99))
PORT = 9400
pytestmark = pytest.mark.slow


def ip(*words, check=True):
    return subprocess.run(['ip', *words], check=check, capture_output=True, text=True)


@pytest.fixture(scope='module')
def machines(tmp_path_factory):
    """Two network namespaces on a bridge, with an sshd in each; yields an ssh that can log in."""
    if os.geteuid() or not (SSHD and all(map(shutil.which, ('ssh', 'ssh-keygen', 'ip')))):
        pytest.skip('needs root, OpenSSH (ssh, sshd, ssh-keygen) and iproute2 (ip)')
    if ip('netns', 'add', 'mgpu-try', check=False).returncode:
        pytest.skip('network namespaces cannot be made here')
    ip('netns', 'del', 'mgpu-try')
    folder, spaces = tmp_path_factory.mktemp('ssh'), []
    tag = os.getpid() % 10**6
    bridge = f'mb{tag}'
    for name in ('host', 'user'):
        words = ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', folder / name]
        subprocess.run(words, check=True)
    known = ''.join(f'{host} {(folder / "host.pub").read_text()}' for host in (FIRST, SECOND))
    (folder / 'known').write_text(known)
    (folder / 'config').write_text(  # what a user has in ~/.ssh
        f'IdentityFile {folder}/user\nUserKnownHostsFile {folder}/known\n'
        'GlobalKnownHostsFile none\nIdentitiesOnly yes\nStrictHostKeyChecking yes\n'
        'SendEnv MGPU_TEST_*\n'  # the mark by which the tests find what they started
    )
    try:
        ip('link', 'add', bridge, 'type', 'bridge')
        ip('addr', 'add', f'{HERE}/24', 'dev', bridge)
        ip('link', 'set', bridge, 'up')
        for number, address in enumerate((FIRST, SECOND)):
            space, outer, inner = f'mgpu{tag}-{number}', f'mo{tag}{number}', f'mi{tag}{number}'
            ip('netns', 'add', space)
            spaces.append(space)
            ip('link', 'add', outer, 'type', 'veth', 'peer', 'name', inner)
            ip('link', 'set', outer, 'master', bridge, 'up')
            ip('link', 'set', inner, 'netns', space)
            ip('-n', space, 'addr', 'add', f'{address}/24', 'dev', inner)
            ip('-n', space, 'link', 'set', inner, 'up')
            ip('-n', space, 'link', 'set', 'lo', 'up')
            sshd(space, address, folder)
        yield f'ssh -F {folder}/config', spaces, inner
    finally:
        for space in spaces:
            for pid in ip('netns', 'pids', space, check=False).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            ip('netns', 'del', space, check=False)
        ip('link', 'del', bridge, check=False)


def sshd(space, address, folder):
    Path('/run/sshd').mkdir(exist_ok=True)  # for its separation of privileges
    config, log = folder / f'{space}.conf', folder / f'{space}.log'
    config.write_text(
        f'ListenAddress {address}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n'
        'PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nClientAliveInterval 5\n'
        'AcceptEnv MGPU_TEST_*\n'
    )
    words = ['ip', 'netns', 'exec', space, SSHD, '-D', '-e', '-f', config]
    with open(log, 'w') as file:
        process = subprocess.Popen(words, stdout=file, stderr=file)
    deadline = time.monotonic() + SECONDS
    while 'Server listening' not in log.read_text():
        assert time.monotonic() < deadline and process.poll() is None, 'sshd did not start'
        time.sleep(0.05)


@pytest.fixture
def start(machines, tmp_path):
    """Launch a command over hosts; afterwards nobody may be left in the namespaces."""
    ssh, spaces, _ = machines
    hostfile = tmp_path / 'hosts'

    def launch(hosts, *command, options=(), prefix='', n=2):
        hostfile.write_text('\n'.join(hosts))
        args = ('launch', '-n', n, '-s', 1, '--hostfile', hostfile, '--port', PORT)
        return Launcher(*args, '--ssh', ssh + prefix, *options, '--', *command)

    yield launch
    deadline = time.monotonic() + SECONDS
    while (left := [p for each in spaces for p in at_work(each)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left and not any(map(listening, spaces))


def at_work(space):
    """Yield the processes in a namespace, other than the sshd that listens there."""
    for pid in ip('netns', 'pids', space, check=False).stdout.split():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(pid))
            words = process.cmdline()
            if '-D' not in words and '[listener]' not in ' '.join(words):
                yield process


def listening(space):
    """List the addresses in a namespace at which somebody listens, sshd aside."""
    lines = ip('netns', 'exec', space, 'ss', '-Htln').stdout.splitlines()
    return {line.split()[3] for line in lines if not line.split()[3].endswith(':22')}


def test_a_training_run_on_this_machine_and_two_others(start):
    hosts = [f'{HERE} slots=1', FIRST, f'{SECOND} slots=1']
    script = ROOT / 'training' / 'train_cluster.py'
    words = ['python', script, '--epochs', '1', '--num-examples', '3000']
    with start(hosts, *words, n=4) as launcher:
        status, out, err = launcher.end()
    digests = [line.split()[-1] for line in out.splitlines() if 'parameters' in line]
    assert status == 0 and len(digests) == 4 and len(set(digests)) == 1


def test_each_machine_is_where_it_should_be_and_a_killed_launcher_leaves_nothing(start, machines):
    """Every role in its own network, and nothing listens at any other address."""
    with start([FIRST, SECOND], 'python', '-c', ENDLESS) as launcher:
        launcher.line_with('at work')
        heard = {word for space in machines[1] for word in listening(space)}
        launcher.process.kill()
        assert launcher.end(SECONDS)[0] == -signal.SIGKILL
    expected = [FIRST, FIRST, SECOND, FIRST]  # the scheduler, the server, ranks 0 and 1
    assert heard == {f'{address}:{PORT + j}' for j, address in enumerate(expected)}


def test_whoever_is_killed_on_another_machine_is_named(start):
    for i, (role, where) in enumerate((('server 0', FIRST), ('worker 0', SECOND)), 1):
        with start([FIRST, SECOND], 'python', '-c', ENDLESS) as launcher:
            launcher.line_with('at work')
            told = [p for p in launcher.living() if p.environ().get('PORT') == str(PORT + i)]
            (victim,) = (p for p in told if '-S' not in p.cmdline())
            victim.kill()
            status, out, err = launcher.end(SECONDS)
        words = f'{role} ended with status 137 on {where} (128 + 9: SIGKILL)'
        assert status == 137 and err.startswith(f'Error: {words}; all were stopped.')


@pytest.mark.parametrize('how', ['goodbye', 'without a word'])
def test_a_machine_that_is_lost(start, machines, how):
    """Its sshd ends, as in a shutdown; or a cable is pulled: ssh notices after 45 seconds."""
    link = ('-n', machines[1][1], 'link', 'set', machines[2])
    with start([FIRST, SECOND], 'python', '-c', ENDLESS) as launcher:
        launcher.line_with('at work')
        if how == 'goodbye':
            for process in at_work(machines[1][1]):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if process.name().startswith('sshd'):
                        process.kill()
        else:
            ip(*link, 'down')
        try:
            status, out, err = launcher.end(45 + SECONDS)
        finally:
            ip(*link, 'up')
    assert status == 255 and err.startswith(f'Error: worker 0 ended with status 255 on {SECOND}')


def test_a_machine_that_cannot_be_reached(start):
    for hosts, prefix, words in (
        ([FIRST, NOBODY], '', f'connect to host {NOBODY} port 22: No route to host'),
        ([FIRST, SECOND], ' -p 2299', 'port 2299: Connection refused'),
        ([FIRST, f'nobody@{SECOND}'], '', 'Permission denied (publickey'),
        ([FIRST, SECOND], ' -oUserKnownHostsFile=/dev/null', 'Host key verification failed'),
        ([FIRST, '198.51.100.7'], '', ' 198.51.100.7 port 22'),
    ):
        with start(hosts, 'python', '-c', ADDING, prefix=prefix) as launcher:
            status, out, err = launcher.end(SECONDS)
        assert status == 2 and not out and err.count('\n') == 1
        assert 'cannot be reached through ssh: ' in err and words in err
    # As behind a router that translates addresses: ssh comes through, the store would not.
    with start([NOBODY], 'true', prefix=f' -oHostName={FIRST}') as launcher:
        status, out, err = launcher.end(SECONDS)
    assert status == 2 and f'{NOBODY} is no address that this machine can listen at' in err


def test_a_firewall_between_machines(start, machines):
    """Nothing but ssh comes through: the limit ends the wait, and says what may be the cause."""
    ip('-n', machines[1][1], 'route', 'add', 'prohibit', FIRST)
    try:
        options = '--connect-timeout', 30  # worker 1 may be there by then
        with start([FIRST, SECOND], 'python', '-c', ADDING, options=options) as launcher:
            status, out, err = launcher.end(SECONDS + 40)
    finally:
        ip('-n', machines[1][1], 'route', 'del', 'prohibit', FIRST)
    assert status == 124 and re.search(r'not registered.*: .*worker 0.*a firewall', err), err


def test_more_processes_than_sshd_takes_logins_at_once(start):
    with start([f'{FIRST} slots=14'], 'echo', 'hello', n=14) as launcher:
        status, out, err = launcher.end()
    assert status == 0 and out.count('hello') == 14
