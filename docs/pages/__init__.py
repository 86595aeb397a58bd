"""Pages that are made from the code: `python -m docs.pages FOLDER` writes them; `make docs` does."""
