#!/bin/bash
# Measures one 256 MiB write over two rate-limited links between two network namespaces, with equal
# rates and with rates of 1:2, and removes everything again. Needs root, ip and tc (package iproute2).
#
#   scripts/veth-bench.sh [JSON-FILE]
#
# RATE: megabits a second of the slower link, 2000 unless it is set. TELPHER: the launcher.
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
telpher=${TELPHER:-$root/telpher}
rate=${RATE:-2000}
json=${1:-}
left=telpher-left-$$ right=telpher-right-$$
work=$(mktemp -d)

die() { echo "veth-bench.sh: $*" >&2; exit 2; }

cleanup() {
    # The namespaces take their links with them.
    for namespace in "$left" "$right"; do
        ip netns pids "$namespace" 2>/dev/null | xargs -r kill 2>/dev/null || true
        ip netns del "$namespace" 2>/dev/null || true
    done
    rm -rf "$work"
}

PATH=$PATH:/usr/sbin:/sbin
((EUID == 0)) || die "needs root, for network namespaces"
command -v ip >/dev/null && command -v tc >/dev/null || die "needs ip and tc (package iproute2)"
trap cleanup EXIT
trap 'exit 130' INT TERM

"$telpher" --version >/dev/null # builds now, not in the middle
ip netns add "$left"
ip netns add "$right"
for link in 1 2; do
    ip link add "rail$link" mtu 9000 netns "$left" type veth peer name "rail$link" mtu 9000 netns "$right"
    ip -n "$left" addr add "10.77.$link.1/24" dev "rail$link"
    ip -n "$right" addr add "10.77.$link.2/24" dev "rail$link"
    for namespace in "$left" "$right"; do
        ip -n "$namespace" link set "rail$link" up
        ip -n "$namespace" link set lo up
    done
done

# A link is up a moment after it was set up; what is not up yet is not used.
for namespace in "$left" "$right"; do
    for link in 1 2; do
        for _ in $(seq 100); do
            ip -n "$namespace" -o link show "rail$link" | grep -q 'state UP' && break
            sleep 0.05
        done
    done
done

limit() { # LINK MEGABITS
    for namespace in "$left" "$right"; do
        tc -n "$namespace" qdisc replace dev "rail$1" root tbf rate "$2mbit" burst 512kb latency 20ms
    done
}

measure() { # NAME MEGABITS MEGABITS
    limit 1 "$2"
    limit 2 "$3"
    local sum
    sum=$(awk -v a="$2" -v b="$3" 'BEGIN { printf "%.4f", (a + b) / 8000 }')
    echo "# $1: $2 and $3 Mbit/s, $sum GB/s together"
    local rails=10.77.1.0/24,10.77.2.0/24
    ip netns exec "$right" "$telpher" bench --listen "$work/address" --rails $rails >"$work/listen.log" 2>&1 &
    local listener=$!
    for _ in $(seq 300); do
        [ -e "$work/address" ] && break
        kill -0 $listener 2>/dev/null || { cat "$work/listen.log" >&2; return 1; }
        sleep 0.1
    done
    ip netns exec "$left" "$telpher" bench --connect "@$work/address" --rails $rails --path tcp \
        --op write --sizes 256M --depth 1 --seconds 3 --json "$work/json"
    wait $listener
    [ -n "$json" ] || return 0
    printf '{"metric":"%s: configured rates","value":%s,"unit":"GB/s","reference":null}
' \
        "$1" "$sum" >>"$json"
    sed "s/\"metric\":\"/&$1: /" "$work/json" >>"$json"
}

[ -z "$json" ] || : >"$json"
measure equal "$rate" "$rate"
measure 1:2 "$rate" $((2 * rate))
