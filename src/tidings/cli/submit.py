"""The file to hand to spark-submit: `spark-submit … submit.py JOB …` is `tidings pipeline JOB …` with its options."""

import sys

from tidings.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "pipeline")
    main()
