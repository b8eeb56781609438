"""Write the lecturer's table: a row for each student, a column for each exercise."""

import csv
import re


class Grades:
    """Rows in the order of the roster, also for students who have handed in nothing."""

    def __init__(self, roster, numbers, worth):
        self.numbers, self.worth, self.rows = numbers, worth, {}
        for student in roster:
            self.row_of(student, None)

    def row_of(self, student, chapter):
        """Return a student's row; a second student of the same name in a chapter gets a new one."""
        key = student.id or student.name, 0
        while chapter is not None and chapter in self.rows.get(key, {}).get('chapters', ()):
            key = key[0], key[1] + 1
        empty = {'id': student.id, 'name': student.name, 'chapters': [], 'points': {}, 'sum': 0}
        return self.rows.setdefault(key, empty | {'late': [], 'files': [], 'remarks': []})

    def add(self, submission, name, checks, right, remarks):
        """Add the verdicts on one submission, and its file name."""
        row = self.row_of(submission.student, submission.chapter)
        row['chapters'].append(submission.chapter)
        points = {n: self.worth(n) if n in right else 0 for n in checks}
        row['points'] |= points
        row['sum'] += submission.counts * sum(points.values())
        row['files'].append(name)
        row['remarks'] += remarks
        if submission.late:
            share = {1.0: '', 0.5: ', counts half', 0.0: ', counts for nothing'}[submission.counts]
            row['late'].append(f'chapter {submission.chapter}: {submission.late}{share}')

    def write(self, path):
        """Write all rows so far to a CSV file."""
        out_of = sum(map(self.worth, self.numbers))
        with path.open('w', newline='', encoding='utf8') as file:
            table = csv.writer(file)
            heads = ['id', 'name', *self.numbers, 'points', 'out_of', 'late', 'files', 'remarks']
            table.writerow(heads)
            for row in self.rows.values():
                points = [row['points'].get(n, '') for n in self.numbers]
                cells = [row['id'], row['name'], *points, f'{row["sum"]:g}', out_of]
                cells += ['; '.join(row[part]) for part in ('late', 'files', 'remarks')]
                table.writerow(map(harmless, cells))


def harmless(cell):
    """Keep a spreadsheet from interpreting text as a formula."""
    return f"'{cell}" if str(cell).startswith(tuple('=+-@')) else cell


def add_weeks(folder):
    """Write ``weeks.csv``: each student's points in each graded week, and their sum."""

    def number(path):
        return [int(n) for n in re.findall(r'\d+', path.parent.name)]

    tables = sorted(folder.glob('week-*/grades.csv'), key=number)
    weeks, rows, out_of = [path.parent.name for path in tables], {}, 0
    for path in tables:
        with path.open(encoding='utf8', newline='') as file:
            graded = list(csv.DictReader(file))
        out_of += int(graded[0]['out_of']) if graded else 0
        for row in graded:
            mine = rows.setdefault(row['id'] or row['name'], {'id': row['id'], 'name': row['name']})
            mine[path.parent.name] = row['points']
    with (folder / 'weeks.csv').open('w', newline='', encoding='utf8') as file:
        table = csv.DictWriter(file, ['id', 'name', *weeks, 'points', 'out_of'])
        table.writeheader()
        for row in rows.values():
            points = sum(float(row.get(week) or 0) for week in weeks)
            table.writerow(row | {'points': f'{points:g}', 'out_of': out_of})
