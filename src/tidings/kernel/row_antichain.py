"""Rows of interests of which none makes another needless, kept as they come and go.

A row whose elements (of a filter: its constraints) are all in another one makes that needless: whatever the other lets
through, it lets through too. Those that are not needless are the *antichain* that a router advertises; the others stay
aside, each with the row that stands for it, and take its place when it goes. One more row costs what it takes to look
for those that it contains or that contain it, not a comparison with all.

>>> rows = RowAntichain()
>>> for row, elements in ((b"ab", [1, 2]), (b"a", [1]), (b"bc", [2, 3])):
...     rows.add(row, elements)
>>> sorted(rows.rows())
[b'a', b'bc']
>>> rows.remove(b"a")
True
>>> sorted(rows.rows())
[b'ab', b'bc']
"""

from tidings._kernel import RowAntichain as RowAntichain
