"""Several machines for real: network namespaces with an address, a way and an sshd of their own."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from launching import ADDING, ENDLESS, ROOT, SECONDS, Launcher

SSHD = shutil.which('sshd', path='/usr/sbin:/sbin:' + os.environ['PATH'])
NETWORK = '203.0.113'  # reserved for documentation, so nobody's
HERE, FIRST, SECOND, NOBODY = (f'{NETWORK}.{i}' for i in (254, 11, 12, 99))
PORT = 9400


def why_not():
    if os.geteuid() != 0:
        return 'only root can make network namespaces'
    if not (SSHD and all(map(shutil.which, ('ssh', 'ssh-keygen', 'ip')))):
        return 'needs OpenSSH (ssh, sshd, ssh-keygen) and iproute2 (ip)'
    if ip('netns', 'add', 'mgpu-try', check=False).returncode:
        return 'network namespaces cannot be made here'
    ip('netns', 'del', 'mgpu-try')
    return None


def ip(*words, check=True):
    return subprocess.run(['ip', *words], check=check, capture_output=True, text=True)


pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def machines(tmp_path_factory):
    """Two namespaces at a bridge, sshd in each; give back the ssh that has a key for them."""
    if reason := why_not():
        pytest.skip(reason)
    folder, spaces = tmp_path_factory.mktemp('ssh'), {}
    tag = f'{os.getpid() % 10**6}'
    bridge = f'mb{tag}'
    try:
        ip('link', 'add', bridge, 'type', 'bridge')
        ip('addr', 'add', f'{HERE}/24', 'dev', bridge)
        ip('link', 'set', bridge, 'up')
        for number, address in enumerate((FIRST, SECOND)):
            space, outer, inner = f'mgpu{tag}-{number}', f'mo{tag}{number}', f'mi{tag}{number}'
            ip('netns', 'add', space)
            spaces[space] = address
            ip('link', 'add', outer, 'type', 'veth', 'peer', 'name', inner)
            ip('link', 'set', outer, 'master', bridge, 'up')
            ip('link', 'set', inner, 'netns', space)
            ip('-n', space, 'addr', 'add', f'{address}/24', 'dev', inner)
            ip('-n', space, 'link', 'set', inner, 'up')
            ip('-n', space, 'link', 'set', 'lo', 'up')
        for space, address in spaces.items():
            sshd(space, address, folder)
        yield f'ssh {client(folder, spaces.values())}', list(spaces), inner
    finally:
        for space in spaces:
            kill(space, lambda process: True)
            ip('netns', 'del', space, check=False)
        ip('link', 'del', bridge, check=False)


def client(folder, addresses):
    """Write what a user has in ~/.ssh; give the options that say where."""
    host_key = (folder / 'host.pub').read_text()
    (folder / 'known').write_text(''.join(f'{address} {host_key}' for address in addresses))
    (folder / 'config').write_text(
        f'IdentityFile {folder}/user\nUserKnownHostsFile {folder}/known\n'
        'GlobalKnownHostsFile none\nIdentitiesOnly yes\nStrictHostKeyChecking yes\n'
    )
    return f'-F {folder}/config'


def sshd(space, address, folder):
    for name in ('host', 'user'):
        if not (folder / name).exists():
            command = ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', folder / name]
            subprocess.run(command, check=True)
            (folder / 'keys').write_text((folder / f'{name}.pub').read_text())
    Path('/run/sshd').mkdir(exist_ok=True)  # for its separation of privileges
    config = folder / f'{space}.conf'
    config.write_text(
        f'ListenAddress {address}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/keys\n'
        'PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nClientAliveInterval 5\n'
    )
    command = ['ip', 'netns', 'exec', space, SSHD, '-D', '-e', '-f', config]
    with open(folder / f'{space}.log', 'w') as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + SECONDS
    while 'Server listening' not in (folder / f'{space}.log').read_text():
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
    while (left := busy(spaces)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left and not any(map(listening, spaces))


def processes(space):
    for pid in ip('netns', 'pids', space, check=False).stdout.split():
        with contextlib.suppress(psutil.NoSuchProcess):
            yield psutil.Process(int(pid))


def kill(space, which):
    for process in processes(space):
        with contextlib.suppress(psutil.NoSuchProcess):
            if which(process):
                process.kill()


def listens(process):
    """Tell whether a process is the sshd of its namespace."""
    words = process.cmdline()
    return '-D' in words or '[listener]' in ' '.join(words)


def busy(spaces):
    """List the processes in the namespaces that are not sshd listening."""
    found = []
    for process in (p for space in spaces for p in processes(space)):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [] if listens(process) else [process.cmdline()]
    return found


def listening(space):
    """List the addresses in a namespace at which somebody listens, sshd aside."""
    lines = ip('netns', 'exec', space, 'ss', '-Htln').stdout.splitlines()
    return {line.split()[3] for line in lines if not line.split()[3].endswith(':22')}


def test_this_machine_and_two_others_add_up(start):
    hosts = [f'{HERE} slots=1', FIRST, f'{SECOND} slots=1']
    with start(hosts, 'python', '-c', ADDING, n=4) as launcher:
        status, out, err = launcher.end()
    assert status == 0 and not err
    expected = [f'[worker {i}] rank {i} of 4 sum [10. 10.]' for i in range(4)]
    assert sorted(out.splitlines()) == expected


def test_each_machine_is_where_it_should_be(start, machines):
    """Every role in its own network, and nothing listens at any other address."""
    with start([FIRST, SECOND], 'python', '-c', ENDLESS) as launcher:
        launcher.line_with('at work')
        heard = {word for space in machines[1] for word in listening(space)}
        launcher.process.terminate()
        assert launcher.end()[0] == 143
    expected = [FIRST, FIRST, SECOND, FIRST]  # the scheduler, the server, ranks 0 and 1
    assert heard == {f'{address}:{PORT + j}' for j, address in enumerate(expected)}


def test_nothing_is_left_on_any_machine_of_a_launcher_that_is_killed(start):
    with start([FIRST, SECOND], 'python', '-c', ENDLESS) as launcher:
        launcher.line_with('at work')
        launcher.process.kill()
        assert launcher.end(SECONDS)[0] == -signal.SIGKILL


@pytest.mark.parametrize('role', [1, 2], ids=['server 0', 'worker 0'])
def test_whoever_is_killed_on_another_machine_is_named(start, role, request):
    with start([FIRST, SECOND], 'python', '-c', ENDLESS) as launcher:
        launcher.line_with('at work')
        told = [p for p in launcher.living() if p.environ().get('PORT') == str(PORT + role)]
        (victim,) = (p for p in told if '-S' not in p.cmdline())
        victim.kill()
        status, out, err = launcher.end(SECONDS)
    where = SECOND if role == 2 else FIRST
    words = f'{request.node.callspec.id} ended with status 137 on {where} (128 + 9: SIGKILL)'
    assert status == 137 and err.startswith(f'Error: {words}; all were stopped.')


@pytest.mark.parametrize('how', ['goodbye', 'without a word'])
def test_a_machine_that_is_lost(start, machines, how):
    """Its sshd ends, as in a shutdown; or a cable is pulled: ssh notices after 45 seconds."""
    link = ('-n', machines[1][1], 'link', 'set', machines[2])
    with start([FIRST, SECOND], 'python', '-c', ENDLESS) as launcher:
        launcher.line_with('at work')
        if how == 'goodbye':
            kill(machines[1][1], lambda p: p.name() == 'sshd' and not listens(p))
        else:
            ip(*link, 'down')
        try:
            status, out, err = launcher.end(45 + SECONDS)
        finally:
            ip(*link, 'up')
    assert status == 255 and err.startswith(f'Error: worker 0 ended with status 255 on {SECOND}')


@pytest.mark.parametrize(
    'hosts, prefix, words',
    [
        ([FIRST, NOBODY], '', f'connect to host {NOBODY} port 22: No route to host'),
        ([FIRST, SECOND], ' -p 2299', 'port 2299: Connection refused'),
        ([FIRST, f'nobody@{SECOND}'], '', 'Permission denied (publickey'),
        ([FIRST, SECOND], ' -oUserKnownHostsFile=/dev/null', 'Host key verification failed'),
        ([FIRST, '198.51.100.7'], '', ' 198.51.100.7 port 22'),
    ],
    ids=['nobody there', 'closed port', 'wrong key', 'unknown host key', 'no way'],
)
def test_a_machine_that_cannot_be_reached(start, hosts, prefix, words):
    with start(hosts, 'python', '-c', ADDING, prefix=prefix) as launcher:
        status, out, err = launcher.end(SECONDS)
    assert status == 2 and not out and err.count('\n') == 1
    assert 'cannot be reached through ssh: ' in err and words in err


def test_an_address_that_the_machine_does_not_have(start):
    """As behind a router that translates addresses: ssh comes through, the store would not."""
    with start([NOBODY], 'true', prefix=f' -oHostName={FIRST}') as launcher:
        status, out, err = launcher.end(SECONDS)
    assert status == 2 and f'{NOBODY} is no address that this machine can listen at' in err


def test_a_firewall_between_machines(start, machines):
    """Nothing but ssh comes through: the limit ends the wait, and says what may be the cause."""
    ip('-n', machines[1][1], 'route', 'add', 'prohibit', FIRST)
    try:
        options = '--connect-timeout', 30  # worker 1 is there by then, on a busy machine, too
        with start([FIRST, SECOND], 'python', '-c', ADDING, options=options) as launcher:
            status, out, err = launcher.end(SECONDS + 40)
    finally:
        ip('-n', machines[1][1], 'route', 'del', 'prohibit', FIRST)
    assert status == 124 and 'worker 0 has not registered' in err and 'a firewall' in err


def test_more_processes_than_sshd_takes_logins_at_once(start):
    with start([f'{FIRST} slots=14'], 'echo', 'hello', n=14) as launcher:
        status, out, err = launcher.end()
    assert status == 0 and out.count('hello') == 14


def test_a_training_run_over_two_machines(start):
    args = ('--epochs', '1', '--num-examples', '3000')
    with start([FIRST, SECOND], 'python', ROOT / 'cluster' / 'train.py', *args) as launcher:
        status, out, err = launcher.end()
    digests = {line.split()[-1] for line in out.splitlines() if 'parameters' in line}
    assert status == 0 and len(digests) == 1
