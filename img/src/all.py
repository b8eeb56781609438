"""Redraw every figure: run each script of this folder that draws one."""

import runpy
from pathlib import Path

if __name__ == '__main__':
    for script in sorted(Path(__file__).resolve().parent.glob('*.py')):
        if script.name not in ('all.py', 'draw.py', 'lanes.py', 'layers.py'):
            runpy.run_path(str(script), run_name='__main__')
