"""The live page in a headless Chromium (Debian: `apt install chromium chromium-driver`); without it, its
tests are skipped."""
