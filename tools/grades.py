"""The table that a lecturer gets: a row for each student, a column for each exercise."""

import csv


class Grades:
    """Rows by student, in the order of the roster; who handed in nothing has one, too."""

    def __init__(self, roster, numbers, worth):
        self.numbers, self.worth, self.rows = numbers, worth, {}
        for student in roster:
            self.row_of(student, None)

    def row_of(self, student, chapter):
        """Give the row of a student; a second one of the same name in a chapter has their own."""
        key = student.id or student.name, 0
        while chapter is not None and chapter in self.rows.get(key, {}).get('chapters', ()):
            key = key[0], key[1] + 1
        empty = {'id': student.id, 'name': student.name, 'chapters': [], 'points': {}}
        return self.rows.setdefault(key, empty | {'late': [], 'files': [], 'remarks': []})

    def add(self, submission, name, checks, right, remarks):
        """Enter the verdicts on one submission, and how it is called."""
        row = self.row_of(submission.student, submission.chapter)
        row['chapters'].append(submission.chapter)
        row['points'] |= {n: self.worth(n) if n in right else 0 for n in checks}
        row['files'].append(name)
        row['remarks'] += remarks
        if submission.late:
            row['late'].append(f'chapter {submission.chapter}: {submission.late}')

    def write(self, path):
        """Write all rows that there are so far."""
        out_of = sum(map(self.worth, self.numbers))
        with path.open('w', newline='', encoding='utf8') as file:
            table = csv.writer(file)
            heads = ['id', 'name', *self.numbers, 'points', 'out_of', 'late', 'files', 'remarks']
            table.writerow(heads)
            for row in self.rows.values():
                points = [row['points'].get(n, '') for n in self.numbers]
                cells = [row['id'], row['name'], *points, sum(row['points'].values()), out_of]
                cells += ['; '.join(row[part]) for part in ('late', 'files', 'remarks')]
                # A spreadsheet would take text that begins like this for a formula.
                table.writerow([f"'{x}" if str(x).startswith(tuple('=+-@')) else x for x in cells])
