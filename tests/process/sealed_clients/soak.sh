# A sealed run in which a crawler with 200 requests at a time works for $SECONDS_LONG, looked at before and after.
# Both times the crawler has ended and the run goes on; before, it has had as many connections.
left() {
    ls "$DIR/tmp"
    ls /proc/self/fd | wc -l
    wc -l </proc/self/mountinfo
    ps -e -o comm= | grep -c 'courtesy\|python'
}
look() {
    until [ -e "$DIR/out/$1" ]; do sleep 0.1; done
    # The command is not called so any more.
    proxy=/proc/$(pgrep -x courtesy)
    echo "$1: $(ls "$proxy/fd" | wc -l) descriptors, $(sed -n 's/VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "$proxy/status") KiB"
    touch "$DIR/out/$1-seen"
}
cat >"$DIR/crawl.sh" <<'END'
. "$DIR/programs.sh"
crawl() {
    $PYTHON -m scrapy runspider "$PROGRAMS/crawl.py" --loglevel=ERROR -s CONCURRENT_REQUESTS=200 \
        -s CONCURRENT_REQUESTS_PER_DOMAIN=200 -s RETRY_ENABLED=False -s TELNETCONSOLE_ENABLED=False \
        -s DOWNLOAD_VERIFY_CERTIFICATES=True -s "SECONDS=$1"
    touch "$DIR/out/$2"
    until [ -e "$DIR/out/$2-seen" ]; do sleep 0.1; done
}
crawl 2 before
crawl "$SECONDS_LONG" after
END
left >"$DIR/left-before"
as_client env -i PATH="$PATH" HOME="$HOME" TMPDIR="$TMPDIR" DIR="$DIR" SECONDS_LONG="$SECONDS_LONG" \
    COURTESY_CONFIG="$COURTESY_CONFIG" COURTESY__STATE_DIR="$COURTESY__STATE_DIR" \
    "$COURTESY" run --sealed -- sh "$DIR/crawl.sh" & run=$!
look before
look after
wait "$run"
echo "ended $?"
left >"$DIR/left-after"
diff "$DIR/left-before" "$DIR/left-after" && echo "nothing is left"
nft list table inet seen
