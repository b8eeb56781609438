"""Pack the course for students (``make pack``), and bring a chapter back (``make restore``).

The pack is what git has, without tests, solutions and the teacher's pages, with a README of its
own. Students have no git there, so it also holds each notebook as it was, in ``.originals``.
"""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
README = 'exercises/student/README.md'
KEPT_BACK = ('tests/', 'benchmarks/', 'exercises/misconceptions/', '.github/', '.ci/')
KEPT_BACK += tuple(f'exercises/teaching/{n}' for n in 'guide.md forty.md exams.md plan.yml'.split())
KEPT_BACK += (README,)
NOTEBOOKS = 'notebooks/', 'exercises/student/'


def handed_out():
    """Yield the names and contents of the files in the pack."""
    listed = subprocess.run(
        ['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split('\0')):
        solved = name.startswith('exercises/') and name.count('/') == 1  # the teacher's notebooks
        if not name.startswith(KEPT_BACK) and not solved and name != 'README.md':
            content = (ROOT / name).read_bytes()
            yield name, content
            if name.startswith(NOTEBOOKS) and name.endswith('.ipynb'):
                yield f'.originals/{name}', content
    text = (ROOT / README).read_bytes().replace(b'](../../', b'](')
    yield 'README.md', text.replace(b'](../', b'](exercises/')


def original(path):
    """Give a notebook as it was handed out, or as git has it."""
    name = path.relative_to(ROOT).as_posix()
    aside = ROOT / '.originals' / name
    if aside.exists():
        return aside.read_bytes()
    shown = subprocess.run(['git', 'show', f'HEAD:{name}'], cwd=ROOT, capture_output=True)
    return None if shown.returncode else shown.stdout


@click.group()
def main():
    """Hand the course out, and bring back what was handed out."""


@main.command()
@click.argument('target', default=ROOT / 'build' / 'course.tar.gz', type=click.Path(path_type=Path))
def pack(target):
    """Write what students get."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, 'w:gz') as packed:
        for name, content in handed_out():
            entry = tarfile.TarInfo(f'course/{name}')
            entry.size = len(content)
            entry.mode = (
                0o755 if (ROOT / name).exists() and (ROOT / name).stat().st_mode & 1 else 0o644
            )
            packed.addfile(entry, io.BytesIO(content))
    click.echo(target)


@main.command()
@click.argument('chapter')
def restore(chapter):
    """Bring back the notebooks of a chapter; a changed one is kept beside it as ...-mine.ipynb."""
    found = 0
    for folder in NOTEBOOKS:
        for path in sorted((ROOT / folder).glob(f'{int(chapter):02}-*.ipynb')):
            if path.stem.endswith('-mine') or (text := original(path)) is None:
                continue
            found += 1
            if path.read_bytes() != text:
                mine = path.with_name(f'{path.stem}-mine.ipynb')
                path.replace(mine)
                path.write_bytes(text)
                click.echo(f'{path.relative_to(ROOT)} is as it was; yours is {mine.name}')
            else:
                click.echo(f'{path.relative_to(ROOT)} has not been changed')
    if not found:
        sys.exit(f"restore: there is no chapter '{chapter}' to bring back")


if __name__ == '__main__':
    main()
