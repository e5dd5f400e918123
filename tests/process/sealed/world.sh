# A network of its own, in which one origin serves ports 80 and 443 of every address, and the files
# that a run needs. Ends as "$@", as the user $AS.
set -eu
exec 2>&1
ip link set lo up
ip route add local 0.0.0.0/0 dev lo
ip -6 route add local ::/0 dev lo
printf '127.0.0.1 localhost\n93.184.216.34 site.example\n93.184.216.35 other.example\n' >"$DIR/hosts"
printf 'hosts: files dns\n' >"$DIR/nsswitch.conf"
mount --bind "$DIR/hosts" /etc/hosts
mount --bind "$DIR/nsswitch.conf" /etc/nsswitch.conf
touch "$DIR/courtesy"
# A place for policies of Firefox.
case $* in
*/opt/firefox/*)
    mount -t tmpfs none /opt
    mkdir -p /opt/firefox/distribution
    ;;
esac
# A place for sockets of services.
case $* in
*/run/docker.sock*)
    mount -t tmpfs none /run
    mkdir -p /run/podman /run/secrets "/run/user/$AS"
    echo secret >/run/secrets/password
    chown -R "$AS:$AS" /run
    ;;
esac
mount --bind "$COURTESY" "$DIR/courtesy"
mkdir -p "$DIR/state" "$DIR/tmp"
chown -R "$AS:$AS" "$DIR/state" "$DIR/tmp"
chmod 755 "$DIR"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=origins \
    -keyout "$DIR/ca.key" -out "$DIR/origins.pem" 2>/dev/null
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=site.example \
    -CA "$DIR/origins.pem" -CAkey "$DIR/ca.key" -addext basicConstraints=critical,CA:FALSE \
    -addext subjectAltName=DNS:site.example -keyout "$DIR/key.pem" -out "$DIR/origin.pem" 2>/dev/null
python3 "$DIR/origin.py" "$DIR" & origin=$!
until curl -s -o /dev/null http://93.184.216.34/; do sleep 0.05; done
: >"$DIR/served"
export HOME="$DIR/state" TMPDIR="$DIR/tmp" COURTESY="$DIR/courtesy"
cd "$DIR/tmp"
status=0
if [ "$AS" = 0 ]; then "$@" || status=$?
else setpriv --reuid="$AS" --regid="$AS" --clear-groups "$@" || status=$?; fi
kill $origin
exit $status
