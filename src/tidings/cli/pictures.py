"""Checks the file name of a picture before the work that it shows begins."""

from pathlib import Path

from tidings.errors import UsageError

KINDS = ("eps", "jpeg", "jpg", "pdf", "png", "ps", "svg", "webp")


def check_picture(path: Path | None) -> None:
    """Refuse a name with an ending that is not a supported format; without an ending it is a PNG."""
    if path is not None and path.suffix and path.suffix[1:].lower() not in KINDS:
        raise UsageError("E_PICTURE", f"{path}: unsupported picture format; use one of {', '.join(KINDS)}")
