"""Redraw all figures, or only those named on the command line: python img/src/all.py lenet mesh.

Each script in this folder draws one ``figure``, which is saved in img/ under the script's name.
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = ('all', 'draw', 'lanes', 'layers')

if __name__ == '__main__':
    for name in sys.argv[1:] or sorted({path.stem for path in HERE.glob('*.py')} - {*SHARED}):
        figure = runpy.run_path(str(HERE / f'{name}.py'))['figure']
        figure.save(HERE.parent / f'{name}.svg')
