from .examination import CHECKS as CHECKS
from .examination import examine as examine
from .report import Report as Report
from .report import Row as Row
