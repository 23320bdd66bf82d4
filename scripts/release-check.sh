#!/bin/sh
# Checks what a release promises besides its tests, from what is committed:
#
#   release-check.sh api    the public API against the last release (tag v*): breaks are listed, and
#                           are a failure unless the version says so (major, or minor before 1.0)
#   release-check.sh build  two builds in different folders give the same files, byte for byte:
#                           jars, sources, Javadoc, bills of materials
#   release-check.sh        both
#
# Exit code: 0 good, 1 broken promise, 2 usage. Needs git; JAVA_HOME, else the JDK of telpher.

set -eu

say() { printf 'release-check: %s\n' "$*"; }
die() { say "$@" >&2; exit 1; }

ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
JAVA_HOME=${JAVA_HOME:-$("$ROOT/telpher" jdk)}
export JAVA_HOME

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Builds commit $1 in folder $2, with the further arguments.
build() {
    mkdir -p "$2"
    git -C "$ROOT" archive "$1" | tar -x -C "$2"
    folder=$2
    shift 2
    (cd "$folder" && mvn -B -ntp -q -Dmaven.test.skip=true "$@" package) >"$work/log" 2>&1 ||
        { tail -n 40 "$work/log" >&2; die "the build in $folder failed"; }
}

# Prints the part of version $1 that may stay the same only while the API is kept.
line_of() { echo "$1" | sed -n 's/^\(0\.[0-9]*\).*/\1/p; t; s/^\([0-9]*\).*/\1/p'; }

check_api() {
    tag=$(git -C "$ROOT" describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) || {
        say 'api: no release yet (no tag v*), nothing to compare with'
        return
    }
    version=$(sed -n 's/^    <version>\(.*\)<.*/\1/p' "$ROOT/pom.xml")
    fails=true
    [ "$(line_of "$version")" = "$(line_of "${tag#v}")" ] || fails=false
    build "$tag" "$work/old" -pl engine
    build HEAD "$work/new" -pl engine
    (cd "$work/new" && mvn -B -ntp -Papi-check -pl engine -Dmaven.test.skip=true \
        -Dtelpher.api.old="$(ls "$work"/old/engine/target/telpher-engine-*.jar)" \
        -Dtelpher.api.fails=$fails verify) >"$work/log" 2>&1 || failed=1
    report=$work/new/engine/target/japicmp/api.diff
    [ -r "$report" ] || { tail -n 40 "$work/log" >&2; die 'the comparison failed'; }
    cat "$report"
    [ -z "${failed:-}" ] ||
        die "api: $version breaks programs written for $tag: keep what was, or raise the version to the next $(
            case $version in 0.*) echo minor ;; *) echo major ;; esac) one and mark it Breaking in CHANGELOG.md"
    [ $fails = true ] && say "api: $version keeps the API of $tag" ||
        say "api: $version may break the API of $tag, see above"
}

check_build() {
    for one in first second-in-another-folder; do
        build HEAD "$work/$one" -Prelease
        (cd "$work/$one" && find . -path '*/target/*' \( -name 'telpher-*.jar' -o -name '*-cyclonedx.json' \) |
            LC_ALL=C sort | xargs sha256sum) >"$work/$one.sums"
    done
    [ -s "$work/first.sums" ] || die 'build: no artifacts'
    diff "$work/first.sums" "$work/second-in-another-folder.sums" >&2 ||
        die 'build: two builds of the same commit differ, see above'
    sed 's/^\(.\{16\}\)[^ ]*/\1/' "$work/first.sums"
    say "build: two builds gave the same $(wc -l <"$work/first.sums") files"
}

case ${1:-all} in
    api) check_api ;;
    build) check_build ;;
    all) check_api && check_build ;;
    *) say "release-check.sh [api|build], not '$1'" >&2 && exit 2 ;;
esac
