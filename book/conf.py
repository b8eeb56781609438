"""Configure Sphinx to build the book from the stored notebooks; tools/book.sh runs it."""

import os
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'tools')]

# Where readers edit a page or open a chapter in Binder or Colab; set when GitHub publishes it.
REPOSITORY = os.environ.get('BOOK_REPOSITORY', '')

project = 'Training on several GPUs'
copyright = 'the authors of the course. Apache-2.0'
release = tomllib.loads((HERE.parent / 'pyproject.toml').read_text('utf8'))['project']['version']
language = 'en'
highlight_language = 'none'  # a command is not Python

extensions = ['myst_nb', 'sphinx_copybutton', 'course', 'citing', 'moving']
include_patterns = [
    '*.md',
    'reference/*.rst',
    'notebooks/*.ipynb',
    'exercises/student/*.ipynb',
    'exercises/teaching/guide.md',
    'exercises/teaching/forty.md',
    'exercises/teaching/syllabus.md',
    'training/README.md',
]
suppress_warnings = ['misc.highlighting_failure']  # the cell for Colab is IPython syntax

nb_execution_mode = 'off'
myst_enable_extensions = ['dollarmath']
myst_dmath_allow_space = False
myst_heading_anchors = 3
numfig = True  # by chapter: Figure 3.4
numfig_format = {'figure': 'Figure %s.'}
copybutton_selector = 'div.cell_input pre, div.highlight-python pre, div.highlight-none pre'

LAUNCH = {
    'binderhub_url': 'https://mybinder.org',
    'colab_url': 'https://colab.research.google.com',  # course.buttons removes some
    'notebook_interface': 'jupyterlab',
}
html_theme = 'sphinx_book_theme'
html_title = project
html_baseurl = os.environ.get('BOOK_URL', '')
templates_path = ['templates']
# A single search field, next to the table of contents.
html_sidebars = {'**': ['navbar-logo.html', 'search-button-field.html', 'sbt-sidebar-nav.html']}
html_static_path = ['static']
html_favicon = 'static/icon.svg'
html_css_files = ['book.css']
html_js_files = [('book.js', {'defer': 'defer'})]
python_maximum_signature_line_length = 80
add_module_names = False
html_math_renderer = 'mathml'
html_use_index = False
html_context = {'default_mode': 'auto', 'state': os.environ.get('BOOK_STATE', '')}
html_theme_options = {
    'repository_url': REPOSITORY,
    'repository_branch': 'main',
    'use_edit_page_button': bool(REPOSITORY),
    'use_repository_button': bool(REPOSITORY),
    'use_issues_button': bool(REPOSITORY),
    'use_download_button': True,
    'launch_buttons': LAUNCH if REPOSITORY else {},
    'show_toc_level': 2,
    'article_header_start': ['toggle-primary-sidebar.html', 'beside.html'],
    'footer_content_items': ['about.html'],
    'pygments_light_style': 'github-light',
    'pygments_dark_style': 'github-dark',
}
