#!/bin/sh
# Makes a Python environment for tests, once: target/test-python for the crawlers, and with "deploy"
# target/deploy-python for the checks of what is shipped beside the program. Run it from anywhere.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
case ${1-} in
    deploy) venv="$root/target/deploy-python" wanted="$root/tests/deploy/requirements.txt" ;;
    *) venv="$root/target/test-python" wanted="$root/tests/requirements.txt" ;;
esac
if [ -f "$venv/requirements.txt" ] && cmp -s "$wanted" "$venv/requirements.txt"; then
    exit 0
fi
rm -rf -- "$venv"
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
# Last, so that an installation that broke off is made again.
cp "$wanted" "$venv/requirements.txt"
