"""Lets the tests of this folder import its reference tokenizer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
