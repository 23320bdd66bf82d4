#!/bin/sh
# Packs what was built into archives that run on a machine without Java: a runtime with just the
# modules that are needed, the jars, and a launcher. Called by `telpher image`.
#
#   build.sh image OUT   the tool, from cli/target/dist/lib
#   build.sh tests OUT   the tests, from */target/test-classes and */target/test-class-path
#
# OUT is the folder that gets the archive. Names, owners, times and order in it depend on the commit
# alone. Needs JAVA_HOME and GNU tar.

set -eu

die() { printf 'telpher: %s\n' "$*" >&2; exit 1; }

HERE=$(dirname -- "$(readlink -f -- "$0")")
ROOT=$(dirname -- "$(dirname -- "$HERE")")
LIB=$ROOT/cli/target/dist/lib
OUT=$2

for tool in jlink jdeps; do
    [ -x "$JAVA_HOME/bin/$tool" ] ||
        die "the JDK in $JAVA_HOME has no $tool: install a complete one (Debian: openjdk-25-jdk-headless) or point JAVA_HOME to it"
done
case $(uname -m) in
    x86_64) os=linux-x64 loader=/lib64/ld-linux-x86-64.so.2 ;;
    aarch64) os=linux-aarch64 loader=/lib/ld-linux-aarch64.so.1 ;;
    *) die "images are made on x86_64 and aarch64, this machine is $(uname -m)" ;;
esac
jar=$(basename -- "$LIB"/telpher-cli-*.jar)
version=${jar#telpher-cli-}
version=${version%.jar}

mkdir -p "$OUT"
work=$(mktemp -d "$OUT/.image-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Prints the JDK's modules that jdeps finds with these arguments, each with a comma behind it.
modules_of() {
    "$JAVA_HOME/bin/jdeps" --multi-release 25 --ignore-missing-deps --print-module-deps "$@" \
        >"$work/modules" || { cat "$work/modules" >&2; die 'jdeps failed'; }
    tr , '\n' <"$work/modules" | grep '^jdk\.\|^java\.' | tr '\n' ,
}

# The same for each of our modules: jdeps takes for granted what a required module requires itself.
modules_of_telpher() {
    for module in cli bootstrap engine; do
        modules_of --module-path "$LIB" -m "io.telpher.$module"
    done
}

# Makes the runtime of $image of modules $1. It is not compressed: the archive is smaller that way,
# and the start quicker. The list of certificates is the building machine's own, and nothing here
# speaks TLS. Further arguments go to jlink.
link_runtime() {
    modules=$1
    shift
    "$JAVA_HOME/bin/jlink" --add-modules "$modules" --output "$image/runtime" --vm=server \
        --strip-java-debug-attributes --no-header-files --no-man-pages --generate-cds-archive \
        --exclude-files=/java.base/lib/security/cacerts "$@" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; die 'jlink failed'; }
}

# Packs $image, with gzip's level $1. Everything that differs between two machines or two runs is set here.
pack() {
    name=$(basename -- "$image")
    cp "$ROOT/LICENSE" "$image"
    epoch=$(sed -n 's/.*<project.build.outputTimestamp>\(.*\)<.*/\1/p' "$ROOT/pom.xml")
    id=$(cd "$image" && find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c 1-32)
    printf '%s %s %s\n' "$id" "$(uname -m)" "$loader" >"$image/lib/image-id"
    chmod -R u=rwX,go=rX "$image"
    chmod 755 "$image"/bin/*
    tar -C "$work" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="$epoch" \
        -cf "$work/tar" "$name"
    gzip -"$1"n <"$work/tar" >"$work/tar.gz"
    mv -f "$work/tar.gz" "$OUT/$name.tar.gz"
    printf '%s: %s MB\n' "$OUT/$name.tar.gz" \
        "$(wc -c <"$OUT/$name.tar.gz" | awk '{ printf "%.1f", $1 / 1e6 }')"
}

case $1 in
    image)
        image=$work/telpher-$version-$os
        mkdir -p "$image/bin" "$image/lib"
        # Besides what the modules require: recordings and readable logs.
        link_runtime "$(modules_of_telpher)java.logging,jdk.jfr"
        cp "$LIB"/*.jar "$image/lib"
        cp "$HERE/telpher" "$image/bin"
        pack 6
        ;;
    tests)
        image=$work/telpher-tests-$version-$os
        mkdir -p "$image/bin" "$image/lib" "$image/tests"
        cp "$LIB"/telpher-*.jar "$image/lib"
        sed 's/:/\n/g' "$ROOT"/*/target/test-class-path | LC_ALL=C sort -u | xargs cp -t "$image/lib"
        for classes in "$ROOT"/*/target/test-classes; do
            module=$(basename -- "$(dirname -- "$(dirname -- "$classes")")")
            case $module in proof | python) continue ;; esac # they run from Maven only
            cp -r "$classes" "$image/tests/$module"
            # JUnit takes it from one place; it is the same in all modules.
            find "$image/tests/$module" -maxdepth 1 -name junit-platform.properties -exec mv {} "$image/lib" \;
        done
        # Besides what the tests name: what the project names, the compiler for the programs of the
        # README, and what the libraries use, some by reflection. Looking through all of their
        # classes takes longer than everything else here.
        link_runtime "$(modules_of --no-recursive --class-path "$image/lib/*" "$image"/tests/*)$(
            modules_of_telpher
        )java.desktop,java.instrument,java.logging,java.sql,java.xml,jdk.compiler,jdk.jfr,jdk.unsupported"
        mkdir -p "$image/scripts/image"
        cp "$ROOT/README.md" "$ROOT/telpher" "$image" # for the tests that read them
        cp "$HERE/telpher" "$image/scripts/image"
        cp "$HERE/telpher-tests" "$image/bin"
        pack 1 # three times as fast, and a tenth larger
        ;;
esac
