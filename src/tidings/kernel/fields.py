"""Decodes the fields of control frames in the kernel; None if they are not in order (`read_fields` says why).

>>> decode_fields(b"\\x01\\x07receipt\\x02\\x0e"), decode_fields(b"\\x01")
({'receipt': 7}, None)
"""

from tidings._kernel import decode_fields as decode_fields
