"""Call an answer from the checks' process: the two processes exchange data, never code.

The checks run in one process (``grade_checks.py``), the answer in another (``grade_answers.py``).
When a check calls a student's function, the other process runs it, and reports the result and the
changes in lists, arrays and tensors. When the function calls one of its arguments (``dist``,
``sync``), the first process is asked in turn. Pickles are sent only to the answer: it replies
with JSON of numbers, strings and bytes (``grade_values.py``).
"""

import builtins
import contextlib
import copy
import io
import json
import pickle

import cloudpickle
from grade_far import OPERATORS, is_ours, standing_for, told
from grade_tensors import KINDS, NAMED, Tensor, kind_of, named, torch_or_none
from grade_values import CONSTANTS, PLAIN, Broken, bytes_of, constant, items, text_of

from mgpu_exercises.checking import Away, Hint, Noted

CONSTANTS = CONSTANTS | NAMED
KINDS = {kind.name: kind for kind in KINDS}


class Raised(Exception):
    """Carries an exception that was raised in the other process."""


class Wire:
    """One end of the connection; ``exchange`` sends a message and returns the next one received."""

    def __init__(self, exchange, decides):
        self.exchange, self.decides = exchange, decides
        self.objects, self.numbers, self.shown, self.next = {}, {}, {}, 0 if decides else 1
        self.places, self.depth = {}, 0  # tensors' earlier addresses; depth of nested calls
        self.final = False  # a student's final result? Later changes are not tracked

    # Sending.

    def number_of(self, value):
        number, self.next = self.next, self.next + 2
        self.register(number, value)
        return number

    def register(self, number, value):
        self.numbers.pop(id(self.objects.get(number)), None)
        self.objects[number], self.numbers[id(value)] = value, number
        if kind_of(value) is Tensor:
            self.places[number] = value.data_ptr()

    def encode(self, value):
        """Return JSON for a value; later changes to lists, arrays and the like are sent as well."""
        if type(value) in PLAIN or type(value) is float:
            return value
        if id(value) in self.numbers:
            return {'r': self.numbers[id(value)]}
        if type(value) is Noted:
            return self.encode(value.function)
        if self.decides and is_ours(value):
            return told(value, self.number_of(value), self.decides)
        if found := constant(value, self.encode) or named(value):
            return found
        for base in (int, str, float):  # an instance of a subclass is sent as its base type
            if isinstance(value, base):
                return base(value)
        kind = kind_of(value)
        if kind and not (kind.stays and not self.decides):
            return self.mirrored(kind, value)
        if not kind and (found := items(value, self.encode)):
            return found
        if self.decides:
            return self.pickled(value)
        return told(value, self.number_of(value), self.decides)

    def mirrored(self, kind, value):
        if kind.pickled:
            return self.pickled(value, kind.name)
        found = {'k': kind.name, 'n': self.number_of(value)}
        found['v'] = kind.content(self, value)
        self.note(found['n'])
        return found | kind.more(self, value)

    def pickled(self, value, kind='pickle', number=None):
        """Pickle an object that is not data; send tensors and our own objects in it by number."""
        found = {'k': kind, 'n': self.number_of(value) if number is None else number}
        wire, file, torch = self, io.BytesIO(), torch_or_none()

        class Pickler(cloudpickle.Pickler):
            def persistent_id(self, part):
                if part is value or isinstance(part, PLAIN):
                    return None
                known = id(part) in wire.numbers or type(part) is Noted
                known = known or torch and isinstance(part, torch.Tensor)
                known = known or type(part) is not type and is_ours(part)
                return json.dumps(wire.encode(part)) if known else None

        Pickler(file).dump(value)
        found['pickle'] = text_of(file.getvalue())
        if kind == 'module':
            parts = [*value.modules()][1:]
            found['parts'] = [self.numbers.get(id(p)) or self.number_of(p) for p in parts]
        if kind != 'pickle':
            self.note(found['n'])
        return found

    def note(self, number):
        if not self.final:
            value = self.objects[number]
            self.shown[number] = json.dumps(kind_of(value).content(self, value))

    def changes(self):
        """Return the objects that have changed since the other process last saw them."""
        found = []
        for number in [*self.shown]:
            value = self.objects[number]
            content = kind_of(value).content(self, value)
            if json.dumps(content) != self.shown[number]:
                found.append([number, content])
                self.note(number)  # its new parts have numbers now
        return found

    # Receiving.

    def decode(self, sent):
        """Return the value that was sent."""
        if not isinstance(sent, dict):
            if type(sent) not in (*PLAIN, float):
                raise Broken
            return sent
        if 'r' in sent:
            return self.objects[sent['r']]
        name, number = sent['k'], sent.get('n')
        if self.decides and number is not None and (number in self.objects or number % 2 == 0):
            raise Broken('a number that is already in use')
        if 'pickle' in sent:
            return self.unpickled(sent)
        if name in CONSTANTS:
            return CONSTANTS[name](sent.get('v'), self.decode)
        if name == 'far':
            value = standing_for(sent, self)
            self.register(number, value)
            return value
        kind = KINDS[name]
        value = kind.make(self, sent)
        self.register(number, value)
        if kind.filled:
            kind.apply(self, value, sent['v'], None)
        self.note(number)
        return value

    def unpickled(self, sent):
        if self.decides:
            raise Broken  # never unpickle anything from a student's process
        wire = self

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, text):
                return wire.decode(json.loads(text))

        value = Unpickler(io.BytesIO(bytes_of(sent['pickle']))).load()
        self.register(sent['n'], value)
        if 'parts' in sent:
            for number, part in zip(sent['parts'], [*value.modules()][1:]):
                self.register(number, part)
        if sent['k'] != 'pickle':
            self.note(sent['n'])
        return value

    def apply(self, changes):
        """Update our objects with the changes that the other process has sent."""
        for number, v in changes:
            if number not in self.shown:
                raise Broken
            value = self.objects[number]
            kind_of(value).apply(self, value, v, json.loads(self.shown[number]))
            self.note(number)

    # Calls.

    def ask(self, do, of, args, options):
        """Have the other process do something; return its result, or raise its exception."""
        message = {'do': do, 'of': of, 'args': [self.encode(x) for x in args],
                   'options': {k: self.encode(x) for k, x in options.items()}}  # fmt: skip
        if self.decides:
            message['within'] = self.pickled(tuple(Away.within)) if Away.within else None
        self.depth += 1
        reply = self.exchange(message | {'changes': self.changes()})
        while 'do' in reply:
            reply = self.exchange(self.done(reply))
        self.depth -= 1
        return self.guarded(self.result_of, reply)

    def guarded(self, function, *args):
        """Call a function that reads a message; one from a student's code may contain anything."""
        try:
            return function(*args)
        except Raised as raised:
            raise raised.args[0] from None
        except Broken:
            raise
        except Exception as error:
            raise (Broken(repr(error)) if self.decides else error) from None

    def result_of(self, reply):
        self.final = self.decides and not self.depth
        found = self.error_of(reply['raise']) if 'raise' in reply else self.decode(reply['give'])
        self.final = False
        self.apply(reply['changes'])
        if 'raise' in reply:
            raise Raised(found)
        return found

    def error_of(self, sent):
        if isinstance(sent, dict):
            if 'r' in sent:
                return self.objects[sent['r']]
            kind, text = self.unpickled(sent)
            error = kind(text)
            self.register(sent['n'], error)
            return error
        name, exact, text = sent
        if name == 'Hint':
            return Hint(str(text)[:400])
        kind = getattr(builtins, str(name), None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            kind, exact = Exception, False
        return (kind if exact is True else type('an error', (kind,), {}))('')

    def done(self, message):
        """Do what the other process asks for; return the reply."""
        try:
            found = self.do(message)
            self.final = not self.decides and not self.depth
            given = self.encode(found)
            self.final = False
            return {'give': given, 'changes': self.changes()}
        except Broken:
            raise
        except BaseException as error:
            self.final = False
            return {'raise': self.said_of(error), 'changes': self.changes()}

    def said_of(self, error):
        if id(error) in self.numbers:
            return {'r': self.numbers[id(error)]}
        if self.decides:
            return self.pickled((type(error), str(error)), number=self.number_of(error))
        if isinstance(error, Hint):
            return ['Hint', True, str(error)[:400]]
        known = (k for k in type(error).__mro__ if getattr(builtins, k.__name__, 0) is k)
        base = next(known, Exception)
        return [base.__name__, base is type(error), '']

    def do(self, message):
        def read():
            of, do = message['of'], message['do']
            args = [self.decode(x) for x in message['args']]
            options = {k: self.decode(x) for k, x in message['options'].items()}
            self.apply(message['changes'])
            return (self.objects[of] if of is not None else None), do, args, options

        target, do, args, options = self.guarded(read)
        if not self.decides:
            return run_within(self, message, target, do, args, options)
        if not is_ours(target):
            raise Broken
        if do == 'get':
            if args[0].startswith('_'):
                raise Broken
            found = getattr(target, args[0])
            return copy.deepcopy(found) if kind_of(found) else found  # a copy for them
        if do != 'call' and do[2:-2] not in OPERATORS:
            raise Broken
        return target(*args, **options) if do == 'call' else getattr(target, do)(*args)


def run_within(wire, message, target, do, args, options):
    """Do what a check asks for, in the context managers that it requires (``checking.around``)."""
    if do == 'grad':
        torch = torch_or_none()
        leaves = [wire.objects[n] for n in args[1]]
        return list(
            torch.autograd.grad(target, leaves, args[0], retain_graph=True, allow_unused=True)
        )
    with contextlib.ExitStack() as stack:
        for manager, given in wire.unpickled(message['within']) if message['within'] else ():
            stack.enter_context(manager(*given))
        if do == 'answers':
            return wire.answers()
        if do == 'run':
            target, *args = args
        return target(*args, **options)
