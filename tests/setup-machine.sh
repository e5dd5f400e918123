#!/usr/bin/env bash
# Installs what the tests need and a fresh Debian machine lacks: packages, and the Python and Node
# programs of target/.
#
#   tests/setup-machine.sh [nightly]     nightly: what .ci/nightly needs, too
set -euo pipefail
cd "$(dirname "$0")/.."

need=()
{ command -v cc && command -v make; } >/dev/null || need+=(build-essential)
command -v wget >/dev/null || need+=(wget)
command -v openssl >/dev/null || need+=(openssl)
# For the repositories that checkpoints are published in.
command -v git >/dev/null || need+=(git)
command -v python3 >/dev/null || need+=(python3)
python3 -c 'import ensurepip, venv' 2>/dev/null || need+=(python3-venv)
# The networks of tests/process/faults.
command -v ip >/dev/null || need+=(iproute2)
# Static programs, and the processes that are left, of tests/process/sealed and sealed_clients.
command -v busybox >/dev/null || need+=(busybox-static)
command -v musl-gcc >/dev/null || need+=(musl-tools)
command -v pgrep >/dev/null || need+=(procps)
# The rules of tests/process/transparent.rs and transparent_https.rs, and the counters of tests/process/sealed_clients.
command -v nft >/dev/null || need+=(nftables)
# The checks of tests/deploy.
command -v systemd-analyze >/dev/null || need+=(systemd)
[ -x /bin/kill ] || need+=(procps)
command -v shellcheck >/dev/null || need+=(shellcheck)
# The sites of packaging/train.
[ -x /usr/sbin/nginx ] || need+=(nginx-light)
# The clients of tests/process/clients.
command -v curl >/dev/null || need+=(curl)
command -v npm >/dev/null || need+=(npm)
command -v chromium >/dev/null || need+=(chromium)
command -v certutil >/dev/null || need+=(libnss3-tools)
# Those that doctor knows to fail, of tests/process/doctor.rs.
command -v aria2c >/dev/null || need+=(aria2)
command -v links >/dev/null || need+=(links)
# An auditor's programs, for tests/process/serve and tests/process/audit_cli.
command -v jq >/dev/null || need+=(jq)
# promtool, for tests/process/serve.
command -v promtool >/dev/null || need+=(prometheus)
# Other dates for the processes of tests/process/durability.
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || need+=(libfaketime)
# The server of tests/process/engine.
command -v redis-server >/dev/null || need+=(redis-server)
if [ "${1-}" = nightly ]; then
    # The clients of tests/process/clients and sealed_clients.
    command -v lynx >/dev/null || need+=(lynx)
    /usr/bin/python3 -c 'import pycurl' 2>/dev/null || need+=(python3-pycurl)
    command -v go >/dev/null || need+=(golang-go)
    command -v javac >/dev/null || need+=(default-jdk-headless)
    command -v chromedriver >/dev/null || need+=(chromium-driver)
    command -v firefox-esr >/dev/null || need+=(firefox-esr)
    command -v wget2 >/dev/null || need+=(wget2)
    command -v elinks >/dev/null || need+=(elinks)
    command -v w3m >/dev/null || need+=(w3m)
    command -v httrack >/dev/null || need+=(httrack)
    command -v http >/dev/null || need+=(httpie)
    command -v ruby >/dev/null || need+=(ruby)
    php -m 2>/dev/null | grep -q '^curl$' || need+=(php-cli php-curl)
    perl -MLWP::Protocol::https -e 1 2>/dev/null || need+=(libwww-perl liblwp-protocol-https-perl)
    perl -MMojo::UserAgent -MIO::Socket::SSL -e 1 2>/dev/null || need+=(libmojolicious-perl libio-socket-ssl-perl)
    # The parent proxies of tests/process/clients.
    command -v tinyproxy >/dev/null || need+=(tinyproxy-bin)
    command -v microsocks >/dev/null || need+=(microsocks)
    [ -x /usr/sbin/squid ] || need+=(squid)
    [ -x /usr/sbin/danted ] || need+=(dante-server)
fi
if ((${#need[@]})); then
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        as_root=(sudo)
    fi
    echo "installing ${need[*]}"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${need[@]}"
    # Only their programs are wanted, where there is somebody to start them.
    for service in danted nginx prometheus redis-server squid; do
        package=${service/danted/dante-server}
        package=${package/nginx/nginx-light}
        if [[ " ${need[*]} " == *" $package "* ]] && [ -d /run/systemd/system ]; then
            "${as_root[@]}" systemctl disable --quiet --now "$service"
        fi
    done
fi
tests/setup-python.sh
tests/setup-python.sh deploy
tests/setup-node.sh
