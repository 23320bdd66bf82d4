#!/bin/sh
# Packs what was built into a self-contained image: a Java runtime with just the modules that are
# needed, the jars, and a launcher. Called by `telpher image`.
#
#   build.sh LIB OUT   LIB: the folder of jars, OUT: the folder that gets telpher-VERSION-OS.tar.gz
#
# The same jars and the same JDK give the same archive, byte for byte. Needs JAVA_HOME and GNU tar.

set -eu

die() { printf 'telpher: %s\n' "$*" >&2; exit 1; }

HERE=$(dirname -- "$(readlink -f -- "$0")")
ROOT=$(dirname -- "$(dirname -- "$HERE")")
LIB=$1
OUT=$2

[ -x "$JAVA_HOME/bin/jlink" ] ||
    die "the JDK in $JAVA_HOME has no jlink: install a complete JDK (Debian: openjdk-25-jdk-headless)"

case $(uname -m) in
    x86_64) os=linux-x64 loader=/lib64/ld-linux-x86-64.so.2 ;;
    aarch64) os=linux-aarch64 loader=/lib/ld-linux-aarch64.so.1 ;;
    *) die "images are made on x86_64 and aarch64, this machine is $(uname -m)" ;;
esac
jar=$(basename -- "$LIB"/telpher-cli-*.jar)
version=${jar#telpher-cli-}
version=${version%.jar}
name=telpher-$version-$os

mkdir -p "$OUT"
work=$(mktemp -d "$OUT/.image-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
image=$work/$name
mkdir -p "$image/bin" "$image/lib"

# What the modules require, and besides: recordings and readable logs.
modules=$("$JAVA_HOME/bin/jdeps" --multi-release 25 --ignore-missing-deps --print-module-deps \
    --module-path "$LIB" -m io.telpher.cli | tr , '\n' | grep '^jdk\.\|^java\.' | tr '\n' ,)
# Not compressed: the archive is smaller that way, and the start faster. The list of certificates is
# the building machine's own, and nothing here speaks TLS.
"$JAVA_HOME/bin/jlink" --add-modules "${modules}java.logging,jdk.jfr" \
    --strip-java-debug-attributes --no-header-files --no-man-pages --vm=server \
    --generate-cds-archive --exclude-files=/java.base/lib/security/cacerts \
    --output "$image/runtime" >"$work/log" 2>&1 || { cat "$work/log" >&2; die 'jlink failed'; }

cp "$LIB"/*.jar "$image/lib"
cp "$HERE/telpher" "$image/bin"
cp "$ROOT/LICENSE" "$image"

# Everything that differs between two machines or two runs is set here.
epoch=$(sed -n 's/.*<project.build.outputTimestamp>\(.*\)<.*/\1/p' "$ROOT/pom.xml")
id=$(cd "$image" && find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c 1-32)
printf '%s %s %s\n' "$id" "$(uname -m)" "$loader" >"$image/lib/image-id"
chmod -R u=rwX,go=rX "$image"
chmod 755 "$image/bin/telpher"
tar -C "$work" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="$epoch" \
    -cf "$work/tar" "$name"
gzip -9n <"$work/tar" >"$work/tar.gz"
mv -f "$work/tar.gz" "$OUT/$name.tar.gz"

printf '%s: %s MB\n' "$OUT/$name.tar.gz" \
    "$(wc -c <"$OUT/$name.tar.gz" | awk '{ printf "%.1f", $1 / 1e6 }')"
