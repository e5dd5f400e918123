# As root in the world of the test: the programs that the clients need, where an ordinary user may read
# them, a name server, and a counter of what leaves for other destinations than that and the origin.
set -eu
programs="$DIR/programs"
cp -r "$ROOT/tests/process/clients/programs" "$programs"
mkdir "$DIR/python" "$DIR/packages" "$programs/node_modules" "$DIR/out"
# The interpreter itself: it may be in a home.
environment="$ROOT/target/test-python"
mount --bind "$("$environment/bin/python" -c 'import sys; print(sys.base_prefix)')" "$DIR/python"
mount --bind "$environment/lib" "$DIR/packages"
mount --bind "$ROOT/target/test-node/node_modules" "$programs/node_modules"
touch "$DIR/own-roots"
mount --bind "$OWN_ROOTS" "$DIR/own-roots"
mkdir -p "$DIR/state/.config/httpie"
# It would look for a newer version of itself.
echo '{"disable_update_warnings": true}' >"$DIR/state/.config/httpie/config.json"
chown -R "$CLIENT:$CLIENT" "$DIR/state" "$DIR/tmp" "$DIR/out"
eval "$PREPARE"

printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$DIR/hosts"
echo 'nameserver 192.0.2.53' >"$DIR/resolv.conf"
mount --bind "$DIR/resolv.conf" /etc/resolv.conf
python3 "$DIR/names.py" 192.0.2.53 "$DIR" &
nft -f - <<'RULES'
table inet seen {
    counter others {}
    set destinations {
        type ipv4_addr . inet_service
        flags dynamic
    }
    chain output {
        type filter hook output priority filter
        ip daddr 93.184.216.34 tcp dport { 80, 443 } accept
        ip saddr 93.184.216.34 tcp sport { 80, 443 } accept
        ip daddr 192.0.2.53 udp dport 53 accept
        ip saddr 192.0.2.53 udp sport 53 accept
        counter name others
        add @destinations { ip daddr . th dport }
    }
}
RULES
as_client() {
    if [ "$CLIENT" = 0 ]; then "$@"
    else setpriv --reuid="$CLIENT" --regid="$CLIENT" --clear-groups "$@"; fi
}
