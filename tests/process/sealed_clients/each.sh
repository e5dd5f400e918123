# Runs each of DIR/clients, three at a time, with URLs of its own; what it says is kept in DIR/out/$1.
. "$DIR/programs.sh"
export PASS="$1"
mkdir "$DIR/out/$PASS"
cat >"$DIR/out/$PASS.sh" <<'END'
client=$1
mkdir "$DIR/out/$PASS/$client.d"
cd "$DIR/out/$PASS/$client.d"
set --
for scheme in http https; do
    for path in page private; do set -- "$@" "$scheme://site.example/$path/$client/$PASS/$scheme"; done
done
timeout 60 sh "$DIR/clients/$client" "$@" >"$DIR/out/$PASS/$client" 2>&1
# What it ended with does not count: a refusal is an error to many.
true
END
cd "$DIR/clients" || exit
printf '%s\n' * | xargs -P 3 -n 1 sh "$DIR/out/$PASS.sh"
