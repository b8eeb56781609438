"""`make report`: what it finds is on the disk at once, and names nobody."""

import getpass
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import report
from checkouts import ROOT
from nbformat.v4 import new_code_cell, new_notebook, new_output

# Minutes of C code that lets no other thread of Python run.
HOLDS_THE_LOCK = "import re\nre.match('(a+)+$', 'a' * 99 + 'b')"
PRINTS = {'outputs': [new_output('stream', text='2\n')], 'execution_count': 1}


PRIVATE = {
    '<address>': (
        'https://anna:word@mirror.example/simple HTTPS://anna:word@mirror http://mirror:8080/x '
        'ftp://files/a git+ssh://git@host/x file:///home/anna/x ssh://10.0.0.7 s3://bucket/key '
        'anna@gpu-server anna@example.org anna.b+c@cs.example.edu root@10.1.2.3 10.1.2.3 '
        '192.168.0.17 fe80::1 2001:db8::1 2001:DB8:0:0:8:800:200C:417A fd00::a1:2 fe80::1%eth0 '
        '02:42:ac:11:00:02 02-42-AC-11-00-02'
    ).split(),
    '.../x.py': (
        '/srv/lab/x.py|/opt/u/x.py|/data/anna/deep/x.py|~anna/x.py|~/x.py|~/course/x.py|'
        '~anna.b/c/x.py|'
        '/home/anna/x.py|/home/anna berg/x.py|/Users/Anna Berg/course/x.py|/Users/anna/x.py|'
        '/mnt/a-b_c.d/x.py|/scratch/u+1/@eaDir/x.py|'
        'C:\\Users\\anna\\x.py|c:\\users\\Anna Berg\\x.py|'
        'D:\\data\\set\\x.py|\\\\server\\share\\x.py|\\\\server\\share\\deep\\x.py'
    ).split('|'),
    "'.../x.py'": (
        "'/srv/lab 1/x.py'",
        "'/opt/a b/c d/x.py'",
        "'D:\\my files\\x.py'",
        "'~/my work/x.py'",
    ),
    '"<secret>"': ('"hf_abcdefgh"', '"p4ssw0rd!"', '"gh-0123"'),
    '<host>': ('gpu-7', 'gpu-7.lab.example', 'gpu-7.lab'),
    '<user>': ('anna',),
}
INNOCENT = (
    'cpu(0), 12:34:56, 550.54.14, 0000:01:00.0|127.0.0.1|0.0.0.0|<NDArray 1x2 @cpu(1)>|1/2 s, a/b|'
    '@torch.no_grad()|x[1::2], x[::-1], x[10::3]|a @ b|12,003 lines|2x2 and 1e-05|device:0|'
    'MXNet 1.9.1, NumPy 1.23.5|loss: 0.5|np.array([1, 2])|at::native|{"a": 1}|annals, gpu-70'
)


def test_names_paths_addresses_and_secrets_are_taken_out(monkeypatch):
    names = {'HF_TOKEN': 'hf_abcdefgh', 'db_password': 'p4ssw0rd!', 'GH_PAT': 'gh-0123', 'KEY': 'a'}
    monkeypatch.setattr(report, 'ENVIRONMENT', names | {'PATH': 'annals'})
    monkeypatch.setattr(platform, 'node', lambda: 'gpu-7.lab')
    monkeypatch.setattr(getpass, 'getuser', lambda: 'anna')
    for left, texts in PRIVATE.items():
        for text in texts:
            assert report.scrub(f'in {text} it') == f'in {left} it', text
    assert sum(map(len, PRIVATE.values())) >= 50
    for text in INNOCENT.split('|'):
        assert report.scrub(text) == text
    ours = f'{ROOT}/tools/report.py:3, {Path.home()}/.mxnet, \x1b[31mred\x1b[0m'
    assert report.scrub(ours) == 'COURSE/tools/report.py:3, HOME/.mxnet, red'
    assert report.scrub({'a': ['/x/y/z', 1]}) == {'a': ['.../z', 1]}


def test_killed_in_the_middle_it_has_what_it_had(tmp_path, started):
    private = "import os\nraise OSError(os.path.expanduser('~/x') + ' 10.1.2.3')"
    for name, *cells in (
        ('01-good', new_code_cell('print(2)', **PRINTS)),
        ('02-bad', new_code_cell('print(2)', **PRINTS), new_code_cell(private)),
        ('03-long', new_code_cell('print(2)', **PRINTS),
         new_code_cell(HOLDS_THE_LOCK)),
    ):  # fmt: skip
        kernel = {'kernelspec': {'name': 'python3', 'display_name': '', 'language': 'python'}}
        nbformat.write(new_notebook(cells=cells, metadata=kernel), tmp_path / f'{name}.ipynb')
    command = [sys.executable, ROOT / 'tools/report.py', '--notebooks', tmp_path, '--out', tmp_path]

    def found():
        return json.loads((tmp_path / 'report.json').read_text())

    with subprocess.Popen(command, stdout=-1, stderr=-2, text=True) as process:
        deadline = time.monotonic() + 400
        while not (tmp_path / 'report.json').exists() or not found()['chapters'][2]['cells']:
            assert process.poll() is None and time.monotonic() < deadline, process.stdout.read()
            time.sleep(0.1)
        process.kill()
    now = found()
    assert not now['finished'] and now['bench']['verdict'] == 'not reached'
    assert now['machine'] and now['versions'] and now['doctor']
    good, bad, late = now['chapters']
    assert (good['verdict'], good['cells'], good['of']) == ('passed', 1, 1)
    assert (bad['verdict'], bad['cells'], bad['of']) == ('failed', 1, 2)
    assert 'OSError: HOME/x <address>' in bad['failure']
    assert (late['verdict'], late['cells']) == ('stopped', 1)
    text = (tmp_path / 'report.md').read_text()
    assert 'OSError: HOME' in text and '| 01-good' in text and 'stopped before its end' in text
    for private in (str(ROOT), str(Path.home()), str(tmp_path)):
        assert private not in text + json.dumps(now)
