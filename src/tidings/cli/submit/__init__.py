"""The file to hand to spark-submit: `spark-submit … FILE JOB …` is `tidings pipeline JOB …` with its options.

It is alone in its folder, which Python puts first on its path: a module beside it would hide one of the library.
"""

import sys

from tidings.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "pipeline")
    main()
