#!/bin/sh
# Installs the clients from npm that tests/process/clients drives, once: target/test-node. Run it from anywhere.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
modules="$root/target/test-node"
wanted="$root/tests/process/clients/package-lock.json"
if [ -f "$modules/installed" ] && cmp -s "$wanted" "$modules/installed"; then
    exit 0
fi
rm -rf -- "$modules"
mkdir -p -- "$modules"
cp "$root/tests/process/clients/package.json" "$wanted" "$modules"
# Scripts would have a say on this machine, and browsers would be downloaded by them.
npm ci --prefix "$modules" --ignore-scripts --no-audit --no-fund --loglevel=error
# Last, so that an installation that broke off is made again.
cp "$wanted" "$modules/installed"
