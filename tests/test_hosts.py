"""Other machines: hostfiles, names and addresses, and ssh with all that can go wrong there."""

import ast
import os
import re
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest
from launching import ADDING, ENDLESS, SECONDS, Launcher, launched, refused

from mgpu_helpers.cluster.placement import Host, plan, read_hosts

# In the place of OpenSSH: the command runs in a session of its own, with an environment of which
# nothing comes from us but the tests' mark, and its standard input is ours. It notes its arguments.
SSH = f"""#!{sys.executable} -S
import os, subprocess, sys, threading
words = sys.argv[1:]
with open(__file__ + '.log', 'a') as file:
    print(repr(words), file=file)
while words[0].startswith('-'):
    words.pop(0)
env = {{name: value for name, value in os.environ.items() if name.startswith('MGPU_TEST_')}}
there = subprocess.Popen(
    ['sh', '-c', ' '.join(words[1:])],
    stdin=subprocess.PIPE, env=env | {{'PATH': '/usr/bin:/bin'}}, cwd='/', start_new_session=True,
)
def forward():
    while some := os.read(0, 4096):
        os.write(there.stdin.fileno(), some)
    there.stdin.close()
threading.Thread(target=forward, daemon=True).start()
status = there.wait()
os._exit(status if status >= 0 else 255)
"""


@pytest.fixture
def hostfile(tmp_path):
    def write(text='me@localhost'):
        path = tmp_path / 'hosts'
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def ssh(tmp_path, started):
    """A folder with a program `ssh` in it, for the PATH; its text may be another."""

    def write(text=SSH):
        path = tmp_path / 'programs' / 'ssh'
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return {'PATH': f'{path.parent}{os.pathsep}{os.environ["PATH"]}'}

    return write


def test_a_hostfile_is_read_as_it_is_meant(hostfile):
    path = hostfile(
        '# a comment\n\n203.0.113.9 slots=2\n  203.0.113.10\t# another\nme@203.0.113.11 slots = 3'
    )
    assert read_hosts(path) == [
        Host('203.0.113.9', '203.0.113.9', 2, False),
        Host('203.0.113.10', '203.0.113.10', None, False),
        Host('me@203.0.113.11', '203.0.113.11', 3, False),
    ]
    assert read_hosts(hostfile('localhost')) == [Host('localhost', '127.0.0.1', None, True)]
    assert read_hosts(hostfile('127.0.0.9')) == [Host('127.0.0.9', '127.0.0.1', None, True)]
    assert not read_hosts(hostfile())[0].here


LINE = "line 1: expected 'name' or 'name slots=N'"
UNUSABLE = {
    '': 'names no host',
    'me@-v': f"{LINE}, not 'me@-v'",  # an option to ssh, if there is a host of that name
    'localhost slots': f"{LINE}, not 'localhost slots'",
    '\nlocalhost slots=0': 'line 2: localhost takes 0 workers',
    'no-such-host.invalid': "line 1: the host name 'no-such-host.invalid' leads to no IPv4",
    '203.0.113.1\nlocalhost': 'so 203.0.113.1 cannot reach it',
    '203.0.113.1\n203.0.113.1': 'line 2: 203.0.113.1 is 203.0.113.1, and so is 203.0.113.1',
    '0.0.0.0': '0.0.0.0, which is no address of one machine',
    '255.255.255.255': '255.255.255.255, which is no address of one machine',
    'localhost\n127.0.0.1': 'name each machine once',
    'localhost slots=1': '2 workers are more than the hosts take (127.0.0.1 takes 1)',
}


def test_a_hostfile_that_cannot_work(hostfile, tmp_path):
    for text, words in UNUSABLE.items():
        err = refused('launch', '-n', 2, '--hostfile', hostfile(text), '--', 'true')
        assert words in err, text
    assert 'Is a directory' in refused('launch', '-n', 2, '--hostfile', tmp_path, '--', 'true')


# Each stands for a user, a machine, a number of slots, or follows a machine that there is.
HOSTILE = [
    *"-Fcfg -oProxyCommand=ls -- - @ @@ . .. ' ` `ls` $(ls) $HOME ;ls |ls &ls >f * ? ~ !".split(),
    *'% %h \\ / " :22 ::1 [::1] 0 0.0.0.0 255.255.255.255 224.0.0.1 slots= =1 0x1 +1 -1'.split(),
    *'\0\t\r\x1b \x85\xa0\u0430\u0661\u200b\u2028\u202e\u2066\ufeff\uff0d\uff4c\U0001f600',
    *('1' * 5000, 'a' * 64, 'a' * 100_000, 'a b', '1 slots=1', '#\n-v'),
]
FORMS = ('{}@127.0.0.1', 'me@{}', 'me@127.0.0.1 slots={}', 'me@127.0.0.1 {}')


def test_whatever_stands_in_a_hostfile_is_refused_or_is_one_word_to_ssh(hostfile, ssh):
    """This ssh logs its arguments and connects to no one."""
    programs = ssh(SSH.partition('while words')[0] + 'sys.exit(255)')
    assert len(HOSTILE) * len(FORMS) >= 200
    for line in [form.format(text) for form in FORMS for text in HOSTILE]:
        args = ('launch', '-n', 1, '--hostfile', hostfile(line), '--connect-timeout', 20)
        err = refused(*args, '--', 'true', **programs)
        assert len(err) < 400 and err.isprintable(), ascii(line[:60])
    noted = Path(programs['PATH'].partition(os.pathsep)[0], 'ssh.log').read_text().splitlines()
    for *_, dashes, host, command in map(ast.literal_eval, noted):
        assert dashes == '--' and command.startswith('sh -c '), host
        assert re.fullmatch(r'\w[\w.]*@\w[\w.]*', host, re.ASCII)
    assert len(noted) >= 10


def test_workers_go_round_the_hosts_that_have_a_slot():
    hosts = ['10.0.0.1', '10.0.0.2', '10.0.0.3']

    def placed(workers, slots):
        roles = plan(workers, 1, [Host(ip, ip, n) for ip, n in zip(hosts, slots)])
        of_workers = [r.host.ip for r in roles if r.kind == 'worker']
        assert of_workers == sorted(of_workers, reverse=True)  # as MXNet gives ranks
        return [of_workers.count(host) for host in hosts]

    assert placed(5, [None] * 3) == [2, 2, 1]
    assert placed(5, [1, None, 1]) == [1, 3, 1]
    assert placed(6, [1, 2, 3]) == [1, 2, 3]
    with pytest.raises(ValueError, match='7 workers are more than the hosts take.*at most 6'):
        placed(7, [1, 2, 3])


def test_a_run_through_ssh(hostfile, ssh, tmp_path, port):
    """In the same folder, whatever its name, with the same variables; the login shell may print."""
    folder = tmp_path / 'a \'folder\' with $signs & "quotes"'
    folder.mkdir()
    (folder / 'work.py').write_text(
        ADDING
        + 'import os, sys; print(os.getcwd(), os.environ["MGPU_DATA_MIRRORS"], '
        + '"HOME" in os.environ, repr(sys.stdin.read()))'
    )
    args = ('-n', 2, '-s', 1, '--hostfile', hostfile(), '--port', port, '--', 'python', 'work.py')
    greeting = SSH.replace('import os,', 'print("Welcome!", flush=True)\nimport os,')
    env = ssh(greeting) | {'MGPU_DATA_MIRRORS': 'it\'s  "$HOME"\n*'}
    status, out, err = launched(*args, env=env, cwd=folder)
    assert status == 0, err
    lines = out.splitlines()
    for i in range(2):
        assert f'[worker {i}] rank {i} of 2 sum [3. 3.]' in lines
        assert f'[worker {i}] {folder} it\'s  "$HOME"' in lines
        assert f"[worker {i}] * False ''" in lines


KEPT = ('NVIDIA_API_KEY', 'MXNET_S3_SECRET', 'DMLC_TOKEN', 'PS_PASSWORD')
SECRETS = {'MGPU_DATA_MIRRORS': 'https://me:a-password@localhost/'} | dict.fromkeys(KEPT, 'secret')


def check_secrets(launcher):
    """Remote roles have the variables training needs, but not as arguments: `ps` shows them."""
    words = [word for p in psutil.process_iter(['cmdline']) for word in p.info['cmdline'] or ()]
    assert not [word for word in words if 'a-password' in word]
    behind = [env for p in launcher.living() if 'DMLC_ROLE' in (env := p.environ())]
    assert len(behind) >= 4 and not any(env.keys() & set(KEPT) for env in behind)
    assert all('a-password' in env['MGPU_DATA_MIRRORS'] for env in behind)


# With a real ssh and several machines there is more, in test_machines.py.
def test_no_secret_is_in_arguments_and_nothing_behind_ssh_outlives_the_launcher(
    hostfile, ssh, port, tmp_path
):
    args = ('launch', '-n', 2, '-s', 1, '--hostfile', hostfile(), '--port', port)
    with Launcher(*args, '--', 'python', '-c', ENDLESS, env=ssh() | SECRETS) as launcher:
        launcher.line_with('at work')
        check_secrets(launcher)
        launcher.process.kill()
        assert launcher.end(SECONDS)[0] == -signal.SIGKILL
    noted = (tmp_path / 'programs' / 'ssh.log').read_text()
    assert noted.count('\n') == 5 and 'a-password' not in noted  # one question, four roles


def test_who_is_killed_behind_ssh_is_named_with_the_signal(hostfile, ssh):
    args = ('-n', 1, '--hostfile', hostfile(), '--', 'sh', '-c', 'kill -KILL $$')
    status, out, err = launched(*args, env=ssh())
    words = 'Error: worker 0 ended with status 137 (128 + 9: SIGKILL); all were stopped.'
    assert status == 137 and err.startswith(words)


@pytest.fixture
def through(ssh, hostfile):
    """Return a function that launches through such an ssh, expects an error, returns its text."""

    def refused_by(text, *options, program='true'):
        args = ('launch', '-n', 2, '-s', 1, '--hostfile', hostfile(), *options)
        return refused(*args, '--', program, **ssh(text))

    return refused_by


def test_another_machine_that_does_not_answer_refuses_or_lacks_something(through):
    denied = '#!/bin/sh\necho me@localhost: Permission denied \\(publickey\\). >&2; exit 255\n'
    lacks = 'me@localhost cannot take part: '
    for words, text, options, program in (
        ('did not answer within 1 s', '#!/bin/sh\nsleep 60\n', ['--connect-timeout', 1], 'true'),
        ('cannot be reached through ssh: me@localhost: Permission denied', denied, [], 'true'),
        ('--python says where else it is', SSH, ['--python', '/no/such/python'], 'true'),
        (f"{lacks}there is no program 'no-such-program'", SSH, [], 'no-such-program'),
    ):
        assert words in through(text, *options, program=program)
    with socket.create_server(('127.0.0.1', 0)) as server:
        port = server.getsockname()[1]
        err = through(SSH, '--port', port - 2)
    assert f'{lacks}port {port} at 127.0.0.1 cannot be used' in err


def test_without_ssh(hostfile):
    args = ('launch', '-n', 2, '--hostfile', hostfile(), '--ssh')
    assert "there is no program 'no-such-ssh' here: other" in refused(*args, 'no-such-ssh', 'true')
    assert "there is no program '' here" in refused(*args, '', 'true')


JOIN = '-n 2 -s 1 --port {port} --root {root} --index {index} --connect-timeout 0.1 -- {program}'


def join(**change):
    # Were one not refused, these tests would become `false`, and fail.
    given = {'index': 2, 'port': 23456, 'root': 'localhost', 'program': 'false'} | change
    return 'join', *JOIN.format(**given).split()


def test_joining_what_cannot_be():
    for change, words in (
        ({'index': 4}, 'index 4 stands for nobody: scheduler, servers and workers have the'),
        ({'index': -1}, '-1 is not in the range x>=0'),
        ({'port': 65533}, 'port 65533 and the 3 after it go beyond 65535'),
        ({'root': 'no-such-host.invalid'}, 'leads to no IPv4 address after 0.1 seconds'),
        ({'root': '203.0.113.1', 'index': 0}, 'but 203.0.113.1 is no address of this machine'),
        ({'root': '127.1'}, '127.1 is 127.0.0.1 on this machine (see its file of hosts), where'),
        ({'program': 'no-such-program'}, "there is no program 'no-such-program' here"),
    ):
        assert words in refused(*join(**change)), change
    with socket.create_server(('127.0.0.1', 0)) as server:
        taken = server.getsockname()[1]
        assert f'port {taken} at 127.0.0.1' in refused(*join(port=taken - 2))


def test_the_index_may_come_from_kubernetes():
    """Or from Slurm, whose script test_cluster_files runs."""
    args = [word for word in join(program='env', index='no') if word not in ('--index', 'no')]
    with Launcher(*args, env={'JOB_COMPLETION_INDEX': '3'}) as launcher:
        status, out, err = launcher.end()
    assert status == 0 and {'PORT=23459', 'DMLC_ROLE=worker'} <= set(out.split())
    assert "Missing option '--index'" in refused(*args)
