#!/bin/sh
# Checks what a release promises besides its tests:
#
#   release-check.sh api           the public API of what is committed against the last release (tag v*) before it:
#                                  breaks are listed, and are a failure unless the version says so (major, or minor
#                                  before 1.0)
#   release-check.sh build         two builds of what is committed, in different folders, give the same files,
#                                  byte for byte: jars, sources, Javadoc, bills of materials
#   release-check.sh address       pom.xml says where the project is found, which Maven Central asks for
#   release-check.sh               all three
#   release-check.sh deploy DIR    uploads the working tree's release to the repository in folder DIR, from a
#                                  copy of the tree
#   release-check.sh again DIR     makes the sources, Javadoc and bills of materials of what `deploy` has put into DIR
#                                  once more, in another folder and time zone, and compares; compiles nothing
#   release-check.sh compare OLD NEW   the public API of one jar of the engine, or of bootstrap, against another
#
# The tests run all but `build`, `api` on a small tree of their own, and hold what `deploy` makes against their own build.
# Exit code: 0 good, 1 broken promise, 2 usage. Needs git; JAVA_HOME, else the JDK of telpher.

set -eu

say() { printf 'release-check: %s\n' "$*"; }
die() { say "$@" >&2; exit 1; }

ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
JAVA_HOME=${JAVA_HOME:-$("$ROOT/telpher" jdk)}
export JAVA_HOME
maven=mvn
command -v mvn >/dev/null || maven=$ROOT/mvnw

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Runs Maven in folder $1, with the further arguments; shows what it says when it fails.
run() {
    folder=$1
    shift
    (cd "$folder" && "$maven" -B -ntp -q "$@") >"$work/log" 2>&1
}

# Builds commit $1 in folder $2, with the further arguments.
build() {
    mkdir -p "$2"
    git -C "$ROOT" archive "$1" | tar -x -C "$2"
    shift
    run "$@" -Dmaven.test.skip=true package ||
        { tail -n 40 "$work/log" >&2; die "the build in $1 failed"; }
}

# Prints the part of version $1 that may stay the same only while the API is kept.
line_of() { echo "$1" | sed -n 's/^\(0\.[0-9]*\).*/\1/p; t; s/^\([0-9]*\).*/\1/p'; }

# Lists what differs in the API from jar $1 to jar $2; fails for breaks if $3 is true.
compare() {
    [ -r "$1" ] && [ -r "$2" ] || die "no such jar: $1 or $2"
    report=$ROOT/engine/target/japicmp/default-cli.diff
    rm -f "$report"
    status=0
    # The plug-in wants the project to have a jar, whatever is compared.
    run "$ROOT" -f engine/pom.xml -Papi-check jar:jar japicmp:cmp \
        -Dtelpher.api.old="$(readlink -f "$1")" -Dtelpher.api.new="$(readlink -f "$2")" -Dtelpher.api.fails="$3" || status=1
    [ -r "$report" ] || { tail -n 40 "$work/log" >&2; die 'the comparison failed'; }
    cat "$report"
    return $status
}

# Prints the last release up to commit $1.
release_before() { git -C "$ROOT" describe --tags --abbrev=0 --match 'v[0-9]*' "$1" 2>/dev/null; }

check_api() {
    # What has its tag already is compared with the release before it, not with itself.
    last=HEAD
    [ -z "$(git -C "$ROOT" tag --list 'v[0-9]*' --points-at HEAD)" ] || last=HEAD^
    tag=$(release_before $last) || {
        say "api: no release up to $last (no tag v*), nothing to compare with"
        return
    }
    version=$(sed -n 's/^    <version>\(.*\)<.*/\1/p' "$ROOT/pom.xml")
    fails=true
    [ "$(line_of "$version")" = "$(line_of "${tag#v}")" ] || fails=false
    build "$tag" "$work/old" -pl engine,bootstrap
    build HEAD "$work/new" -pl engine,bootstrap
    for module in engine bootstrap; do
        compare "$work/old/$module/target/telpher-$module"-*.jar "$work/new/$module/target/telpher-$module"-*.jar $fails ||
            die "api: $version breaks programs written for $tag: keep what was, or raise the version to the next $(
                case $version in 0.*) echo minor ;; *) echo major ;; esac) one and mark it Breaking in CHANGELOG.md"
    done
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

check_address() {
    run "$ROOT" -N -Psign validate || {
        grep telpher.address "$work/log" >&2 || tail -n 40 "$work/log" >&2
        die 'address: not fit for Maven Central'
    }
    say 'address: given'
}

# Copies the working tree into folder $1.
copy_tree() {
    mkdir -p "$1"
    (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard |
        xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh |
        tar -c --null -T -) | tar -x -C "$1"
}

deploy() {
    mkdir -p "$1"
    repository=$(readlink -f "$1")
    copy_tree "$work/tree"
    # Error Prone and the formatter have looked at this tree already, and change nothing.
    run "$work/tree" -Prelease -Dmaven.test.skip=true -Dspotless.check.skip=true -Dmaven.install.skip=true \
        -Derrorprone.checks=-XepDisableAllChecks -Dnullaway.checks= \
        -DaltDeploymentRepository="check::file://$repository" deploy ||
        { tail -n 40 "$work/log" >&2; die 'deploy: failed, see above'; }
    say "deploy: $(find "$repository" -name 'telpher-*.jar' | wc -l) jars"
}

again() {
    copy_tree "$work/again"
    modules=
    for module in engine bootstrap cli; do
        modules=$modules${modules:+,}$module
        classes=$work/again/$module/target/classes
        mkdir -p "$classes"
        for jar in "$1/io/telpher/telpher-$module"/*/*.jar; do
            case $jar in
                *-sources.jar | *-javadoc.jar) ;;
                *) "$JAVA_HOME/bin/jar" --extract --file "$jar" --dir "$classes" ;;
            esac
        done
        rm -r "$classes/META-INF/maven" "$classes/META-INF/MANIFEST.MF"
    done
    TZ=Asia/Kathmandu run "$work/again" -Prelease -pl "$modules" -Dmaven.main.skip=true -Dmaven.test.skip=true package ||
        { tail -n 40 "$work/log" >&2; die 'again: failed, see above'; }
    compared=0
    for kind in sources.jar javadoc.jar cyclonedx.json; do
        for new in "$work/again"/*/target/*-$kind; do
            module=${new#"$work/again/"}
            cmp -s "$new" "$1/io/telpher/telpher-${module%%/*}"/*/*-$kind ||
                die "again: ${new##*/} differs from the one in $1"
            compared=$((compared + 1))
        done
    done
    [ $compared = 9 ] || die "again: compared $compared files instead of 9"
    say "again: the same $compared files"
}

case ${1:-all}/$# in
    address/1) check_address ;;
    api/1) check_api ;;
    build/1) check_build ;;
    all/0) check_address && check_api && check_build ;;
    deploy/2) deploy "$2" ;;
    again/2) again "$2" ;;
    compare/3) compare "$2" "$3" true || die "compare: $3 breaks programs written for $2" ;;
    *) say "release-check.sh [address | api | build | deploy DIR | again DIR | compare OLD NEW], not '$*'" >&2 && exit 2 ;;
esac
