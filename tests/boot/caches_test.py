"""Starts the caches program (several turns in one sandbox) once the default image is there."""
import os
import subprocess
import sys

import support

support.prepare_image()
sys.exit(subprocess.run([os.environ["TURNBOX_CACHES"], "--log_level=message"], check=False, timeout=580).returncode)
