# JupyterLab's settings for `make lab`, applied after the user's own; overrides.json has defaults.
import platform

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager


class Chapters(AsyncLargeFileManager):
    """Serve each notebook with its kernel's own description, so that opening it changes nothing."""

    async def get(self, path, *args, **options):
        model = await super().get(path, *args, **options)
        about = (
            model['content']['metadata'] if model['type'] == 'notebook' and model['content'] else {}
        )
        known = KernelSpecManager().get_all_specs()
        if (name := about.get('kernelspec', {}).get('name')) in known:
            about['kernelspec']['display_name'] = known[name]['spec']['display_name']
            about['language_info'] = {
                **about.get('language_info', {}),
                'codemirror_mode': {'name': 'ipython', 'version': 3},
                'nbconvert_exporter': 'python',
                'version': platform.python_version(),
            }
        return model


c = get_config()  # noqa: F821  from traitlets
# The server's root is the course, not notebooks/: the chapters show figures from img/.
c.ServerApp.root_dir = '.'
c.ServerApp.jpserver_extensions = {'ipyparallel': False}  # its tab, which page_config.json hides
c.ServerApp.contents_manager_class = Chapters
c.FileContentsManager.preferred_dir = 'notebooks'
c.LabApp.workspaces_dir = '.uv/workspaces'
c.MappingKernelManager.transport_encryption = 'auto'  # messages go through local ports
