"""Makes ``held_to`` importable from the tests beside it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
