"""Makes ``small_training`` and ``scored_by_hand`` importable from the tests beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
