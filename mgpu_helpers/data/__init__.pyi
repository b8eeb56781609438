from .batches import Batches as Batches
from .sets import Dataset as Dataset
from .sets import OfflineDataWarning as OfflineDataWarning
from .sets import dataset as dataset
from .sets import home_with_files as home_with_files
from .sets import load_arrays as load_arrays
