# JupyterLab's settings for `make lab`, applied after the user's own; overrides.json has defaults.
import platform

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager


class Chapters(AsyncLargeFileManager):
    """Serve each notebook with its kernel's own description, so that opening changes no file."""

    def __init__(self, **options):
        super().__init__(**options)
        self.parent.static_custom_path = ['tools/lab']  # custom.css; no option of the server's

    async def get(self, path, *args, **options):
        model = await super().get(path, *args, **options)
        about = (model['content'] or {}).get('metadata', {}) if model['type'] == 'notebook' else {}
        known = KernelSpecManager().get_all_specs()
        if (name := about.get('kernelspec', {}).get('name')) in known:
            about['kernelspec']['display_name'] = known[name]['spec']['display_name']
            info = about.setdefault('language_info', {})
            info |= {'codemirror_mode': {'name': 'ipython', 'version': 3}}
            info |= {'nbconvert_exporter': 'python', 'version': platform.python_version()}
        return model


c = get_config()  # noqa: F821  from traitlets
c.ServerApp.root_dir = '.'  # not notebooks/: the chapters show figures from img/
c.ServerApp.jpserver_extensions = {'ipyparallel': False}  # its tab, which page_config.json hides
c.ServerApp.contents_manager_class = Chapters
c.FileContentsManager.preferred_dir = 'notebooks'
c.ContentsManager.hide_globs.append('chapters.yml')  # what no reader opens
c.LabApp.custom_css = True
c.LabApp.workspaces_dir = '.uv/workspaces'
c.MappingKernelManager.transport_encryption = 'auto'  # messages go through local ports
