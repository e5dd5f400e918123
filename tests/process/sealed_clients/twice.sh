# Two sealed runs of all clients, without a variable and with all.
eval "$TRUST"
as_client "$COURTESY" run --sealed -- env -i PATH="$PATH" HOME="$HOME" TMPDIR="$TMPDIR" DIR="$DIR" \
    sh "$DIR/each.sh" without
echo "without variables: $?"
as_client "$COURTESY" run --sealed -- sh "$DIR/each.sh" with
echo "with variables: $?"
nft list table inet seen
