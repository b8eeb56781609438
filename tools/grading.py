"""Grade one submission: run its cells and its answers in one process, decide in another.

A submission's process (``grade_answers.py``) forks: one child runs the cells, then one child runs
each answer. The checks (``grade_checks.py``) run no student's code: they ask, and receive data.
"""

import base64
import builtins
import os
import time

from sandbox import Ended, Program

SECONDS = 240  # for a submission, restarts included; after that, the verdicts so far count
CELL_SECONDS = 20  # for one cell
ANSWER_SECONDS = 90  # 5.11 sends 3,400 messages; some checks start processes, 20 s on busy machines
START_SECONDS = 120  # for importing the checks
LARGEST = 10 << 20  # the largest notebook, in bytes


class Refused(Exception):
    """A submission has no verdicts; the message says why."""


def error_name(name):
    """Return the name of a student's error if it is built in; any other name is untrusted text."""
    kind = getattr(builtins, str(name), None)
    return name if isinstance(kind, type) and issubclass(kind, BaseException) else 'an error'


def content_of(path):
    """Read a submission from a regular file; a link may lead to another student's."""
    if path.is_symlink() or not path.is_file():
        raise Refused('it is a folder or a link: hand in the notebook itself')
    if path.stat().st_size > LARGEST:
        raise Refused(f'it is too large, over {LARGEST >> 20} MB: save it without its outputs')
    if (content := path.read_bytes()).startswith((b'\xff\xfe', b'\xfe\xff')):
        raise Refused('it is written in UTF-16: save it as UTF-8')
    return content


def ready(script, course, prefix, number):
    """Start a program and wait until it has imported the packages for an exercise's checks."""
    program = Program(script, course, prefix)
    try:
        program.send({'number': number})
        program.receive(time.monotonic() + START_SECONDS)
    except Ended as how:
        program.stop()
        raise Refused(f'nothing could be checked: what checks it {how}') from None
    return program


class Room:
    """The process for a student's code: it forks for each job, and is restarted if it ends."""

    def __init__(self, course, prefix, number):
        self.of, self.program = (course, prefix, number), None

    def close(self):
        if self.program:
            self.program.stop()
        self.program = None

    def start(self, job):
        if not self.program:
            self.program = ready('grade_answers.py', *self.of)
            self.kept = {child.pid for child in self.program.below()}
        self.program.send(job)

    def receive(self, deadline):
        """Return the child's next message; raise ``Ended`` if the process has ended."""
        message = self.program.receive(deadline)
        if 'ended' in message:
            raise Ended('ended the process')
        return message

    def clear(self):
        """Kill the child and its processes; return ``Ended`` if unread messages were left.

        To confirm, the process must reply with a random word that it is sent only now.
        """
        word, deadline, ended = os.urandom(8).hex(), time.monotonic() + START_SECONDS, 0
        try:
            self.program.end_all_but(self.kept | Program.lasting)
            for job in {}, {'word': word}:  # the first completes a line that was sent in part
                self.program.send(job, deadline)
            while (message := self.program.receive(deadline)).get('word') != word:
                if [*message] != ['ended'] or (ended := ended + 1) > 1:
                    raise Ended('wrote to the results')
        except Ended as how:
            self.close()
            return how


def run_cells(room, job, deadline):
    """Run a submission's cells and yield their messages; if a cell ends them, rerun without it."""
    skipped, done = [], False
    while not done and time.monotonic() < deadline:
        cell = None
        try:
            room.start(job | {'skipped': skipped})
            while not done:
                seconds = SECONDS if cell is None else CELL_SECONDS
                message = room.receive(min(deadline, time.monotonic() + seconds))
                cell = message.get('cell', cell)
                done = 'end' in message
                message.pop('how', None)
                yield message | {'cell': cell}
        except Ended as how:
            if cell is None:
                raise Refused(f'it cannot be read: it {how}') from None
            skipped.append(cell)
            yield {'cell': cell, 'how': f'{how}: left out'}
        room.clear()


class Judge:
    """The processes that run the checks, one per chapter, shared by all submissions."""

    def __init__(self, course):
        self.course, self.programs = course, {}

    def close(self):
        while self.programs:
            self.programs.popitem()[1].stop()

    def program(self, python, number):
        """Return the process for an exercise; start it if it is not running."""
        chapter = number.partition('.')[0]
        if chapter not in self.programs:
            self.course.python = python
            self.programs[chapter] = ready('grade_checks.py', self.course, [], number)
            Program.lasting.add(self.programs[chapter].process.pid)
        return self.programs[chapter]

    def verdict(self, room, path, number, deadline):
        """Have an answer checked: relay the checks' requests to its process, and its data back."""
        judge, how, reply = self.program(room.of[0].python, number), None, {}
        room.start({'answer': str(path)})
        end = min(deadline, time.monotonic() + ANSWER_SECONDS)
        room.receive(end)  # it has begun
        judge.send({'number': number})
        while 'ask' in (message := self.receive(judge, end)):
            try:
                if not how:
                    room.program.send(message['ask'], end)
                    reply = room.receive(end)
            except Ended as why:
                how, reply = why, {'ended': True}
            judge.send(reply)
        if how:
            raise how
        if 'broken' in message:
            raise Ended('returned something other than plain data, or wrote to the results')
        return message

    def receive(self, judge, end):
        try:
            return judge.receive(end + CELL_SECONDS)
        except Ended:  # an argument that it received keeps it busy
            self.close()
            raise


def run_checks(room, judge, answers, deadline):
    """Check answers; yield each number and verdict. An answer that ends its process is wrong.

    Each answer is sent as a file name, because it may not fit into a pipe.
    """
    for number, answer in answers.items():
        if time.monotonic() > deadline:
            return
        path, how = room.of[0].given / f'{number}.pickle', None
        path.write_bytes(answer)
        try:
            found = judge.verdict(room, path, number, deadline)
        except Ended as ended:
            how = ended
        more = room.clear()
        if how := how or more:
            found = {'right': False, 'sentence': f'its answer {how}', 'how': str(how)}
        yield number, found


def grade(room, judge, checks, path):
    """Return the verdicts on a submission, {number: (right, sentence)}, and remarks on the rest.

    Between them are the names for which personal numbers were drawn, {number: name}.
    """
    verdicts, names, remarks, answers = {}, {}, [], {}
    deadline, notebook = time.monotonic() + SECONDS, room.of[0].given / 'notebook'
    notebook.write_bytes(content_of(path))
    for message in run_cells(room, {'notebook': str(notebook), 'checks': checks}, deadline):
        if 'unreadable' in message:
            why = error_name(message['unreadable'])
            raise Refused(f'it is not a readable notebook: {why}')
        number = message.get('number')
        if 'error' in message:
            remarks.append(f'cell {int(message["cell"]) + 1}: {error_name(message["error"])}')
        elif 'how' in message:
            remarks.append(f'cell {int(message["cell"]) + 1}: {message["how"]}')
        elif 'missing' in message and number in checks:
            verdicts[number] = False, f'not yet: {error_name(message["missing"])}'
        elif number in checks:
            answers[number] = base64.b64decode(message['answers'])
    for number, found in run_checks(room, judge, answers, deadline):
        verdicts[number] = found['right'] is True, found['sentence']
        if found.get('name'):
            names[number] = found['name']
        if how := found.get('how'):
            remarks.append(f'{number}: its answer {how}')
    return verdicts, names, list(dict.fromkeys(remarks))
