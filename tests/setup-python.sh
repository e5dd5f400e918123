#!/bin/sh
# Makes a Python environment, once: target/test-python for the crawlers of the tests; with "deploy"
# target/deploy-python for the checks of what is shipped beside the program; with "wheel" or "zig" what packaging/
# builds with, with "try" what packaging/try/all tries with. Run it from anywhere.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
case ${1-} in
    deploy) venv="$root/target/deploy-python" wanted="$root/tests/deploy/requirements.txt" ;;
    wheel | zig) venv="$root/target/$1-python" wanted="$root/packaging/$1.txt" ;;
    try) venv="$root/target/try-python" wanted="$root/packaging/try/requirements.txt" ;;
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
