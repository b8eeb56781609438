from .command import examine as examine
