#!/bin/sh
# How fast `courtesy audit query` reads a log, beside cat, grep and jq on the same files in one run.
#   benches/query.sh [RECORDS] [DIR]
# Makes the log (about 1.5 KB a record) in DIR unless it is there, and prints seconds and ratios.
set -eu
records=${1:-5000000}
dir=${2:-target/bench-log-$records}
cd "$(dirname "$0")/.."
courtesy=$(packaging/compile)
[ -e "$dir/denials.jsonl" ] || cargo bench --quiet --bench log -- "$dir" "$records"
files=$(ls "$dir"/denials*.jsonl | tr '\n' ' ')
middle=$(printf '01K%023d' $((records / 2)))

# Seconds that a command takes, the best of so many times: other work on the machine only adds to them.
seconds() {
    for _ in $(seq "${times:-3}"); do
        start=$(date +%s%N)
        sh -c "$1" >/dev/null
        echo "$start $(date +%s%N)"
    done | awk '{ took = ($2 - $1) / 1e9 } NR == 1 || took < best { best = took } END { printf "%.2f", best }'
}

# A command, its seconds, and how many times as long the query of the same question took.
compare() {
    took=$(seconds "$3")
    echo "$1|$2|$took|$(echo "$took $query" | awk '{ printf "%.2f", $1 / $2 }')"
}

question() {
    query=$(seconds "$courtesy audit query --format json --dir $dir $2")
    echo "$1|courtesy audit query $2|$query|1"
    # grep would stop at the first match if it wrote to nowhere.
    compare "$1" "grep -c" "grep -c '$3' $files | cat"
}

# Once through, so that all of them find the files in memory.
sh -c "cat $files" >/dev/null
{
    echo "question|command|seconds|to the query"
    query=1
    echo "all bytes|cat|$(seconds "cat $files | cat")|"
    question "one record" "--id $middle" "\"id\":\"$middle\""
    question "one in ten" "--reason robots_unreachable" '"reason":"robots_unreachable"'
    # It takes minutes: once is enough.
    times=1 compare "one in ten" "jq -c" "jq -c 'select(.reason == \"robots_unreachable\")' $files"
    question "nine in ten" "--reason disallow_rule" '"reason":"disallow_rule"'
    question "a host" "--origin www77.example.com" '"origin":"https://www77.example.com"'
} | column -t -s '|'
ls -l $files | awk -v records="$records" '{ bytes += $5 } END { printf "%d records, %.2f GB\n", records, bytes / 1e9 }'
