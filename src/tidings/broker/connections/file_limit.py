"""Raises the limit of open files to the hard limit, and explains errors caused by it."""

import errno
import resource


def raise_file_limit() -> None:
    """Each connection takes a file descriptor; the usual soft limit of 1024 is far too low."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def remedy(error: BaseException | None) -> str:
    """Advice to append to the message of an error caused by the limit of open files; empty for other errors."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return f"; this process may open {limit} files: allow more (ulimit -n, or LimitNOFILE in systemd)"
        error = error.__cause__ or error.__context__
    return ""
