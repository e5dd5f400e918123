#!/bin/sh
# Makes the Python environment of the crawler tests, once: target/test-python. Run it from anywhere.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv="$root/target/test-python"
wanted="$root/tests/requirements.txt"
if [ -f "$venv/requirements.txt" ] && cmp -s "$wanted" "$venv/requirements.txt"; then
    exit 0
fi
rm -rf -- "$venv"
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
# Last, so that an installation that broke off is made again.
cp "$wanted" "$venv/requirements.txt"
