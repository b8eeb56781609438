"""Checks of what the user passes: one call each, so that they do not drown the lesson.

Each raises before anything is changed, and names the value, what was expected and the way out:
TypeError for a thing of another kind, ValueError for a wrong value.
"""

from .arrays import Array as Array
from .arrays import array as array
from .arrays import as_many_devices as as_many_devices
from .arrays import batch as batch
from .arrays import can_split as can_split
from .arrays import copies as copies
from .arrays import device as device
from .arrays import device_list as device_list
from .arrays import evaluation as evaluation
from .arrays import for_device as for_device
from .arrays import library as library
from .arrays import list_of_arrays as list_of_arrays
from .arrays import on_a_device as on_a_device
from .arrays import same_length as same_length
from .arrays import shards as shards
from .replicas import alike as alike
from .replicas import inputs as inputs
from .replicas import lenet as lenet
from .replicas import lists_of_gradients as lists_of_gradients
from .replicas import replicas as replicas
from .replicas import step as step
from .replicas import trainable as trainable
from .replicas import training as training
from .values import any_examples as any_examples
from .values import divisible as divisible
from .values import drawing as drawing
from .values import epoch as epoch
from .values import epochs as epochs
from .values import function as function
from .values import last_batch as last_batch
from .values import losses as losses
from .values import not_negative as not_negative
from .values import one_of as one_of
from .values import pairs as pairs
from .values import positive_int as positive_int
from .values import positive_number as positive_number
from .values import shown as shown
from .values import stand_ins as stand_ins
from .values import store as store
from .values import whole_number as whole_number
