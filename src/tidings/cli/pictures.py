"""Where a picture may go: known before anything is reckoned or measured for it."""

from pathlib import Path

from tidings.errors import UsageError

KINDS = ("eps", "jpeg", "jpg", "pdf", "png", "ps", "svg", "webp")


def check_picture(path: Path | None) -> None:
    """Refuse a name whose ending is no kind of picture that can be drawn; without one it is a PNG."""
    if path is not None and path.suffix and path.suffix[1:].lower() not in KINDS:
        raise UsageError("E_PICTURE", f"{path}: a picture ends in one of {', '.join(KINDS)}")
