#!/usr/bin/env bash
# Makes fixtures/broken from the sound fixtures: one defect each, described in fixtures/broken/MANIFEST.toml.
#
#   break-fixture.sh [NAME]   all of them, or the one of that name to standard output, uncompressed
#
# Needs no server. The same fixtures give the same bytes.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here fixtures="${here%/*}/fixtures"

die() { printf 'break-fixture: %s\n' "$*" >&2; exit 2; }

# name | made from | operation and its arguments | page of the first finding | all damaged pages | reason | defect
# PAGE in a defect's arguments counts from 0. An offset counts from the start of the page.
defects() {
    cat <<'TABLE'
flipped-bit-mysql-16k|mysql-9.7/dynamic-16k|flip 4 200 3|4|4|checksum_mismatch|one bit of the clustered index's root is flipped
flipped-bit-mysql-4k|mysql-9.7/dynamic-4k|flip 10 4000 0|10|10|checksum_mismatch|one bit of a leaf page is flipped
flipped-bit-mysql-64k|mysql-9.7/dynamic-64k|flip 6 65000 7|6|6|checksum_mismatch|one bit of a leaf page is flipped
flipped-bit-mysql-16k-innodb|mysql-9.7/dynamic-16k-innodb|flip 5 9000 1|5|5|checksum_mismatch|one bit of a page with the older checksum is flipped
flipped-bit-mysql-zip-8k|mysql-9.7/zip-8k|flip 6 5000 5|6|6|checksum_mismatch|one bit of a compressed page is flipped
flipped-bit-mariadb-16k|mariadb-10.11/dynamic-16k|flip 4 200 3|4|4|checksum_mismatch|one bit of an index page is flipped
flipped-bit-mariadb-16k-crc32|mariadb-10.11/dynamic-16k-crc32|flip 4 200 3|4|4|checksum_mismatch|one bit of an index page with the older checksum is flipped
flipped-bit-mariadb-zip-4k|mariadb-10.11/zip-4k|flip 5 3000 2|5|5|checksum_mismatch|one bit of a compressed page is flipped
flipped-bit-page-0-mysql-16k|mysql-9.7/dynamic-16k|flip 0 300 6|0|0|checksum_mismatch|one bit of an extent descriptor in page 0 is flipped
wrong-stored-checksum-mysql-16k|mysql-9.7/dynamic-16k|flip 6 1 4|6|6|checksum_mismatch|one bit of the stored checksum itself is flipped
swapped-pages-mysql-16k|mysql-9.7/dynamic-16k|swap 5 7|5|5 7|misplaced_page|two pages of one file have changed places; their checksums are right
swapped-pages-mariadb-16k|mariadb-10.11/dynamic-16k|swap 5 7|5|5 7|misplaced_page|two pages of one file have changed places; their checksums are right
foreign-page-mysql-16k|mysql-9.7/dynamic-16k|foreign 5 mysql-9.7/compact-16k|5|5|misplaced_page|a sound page of another tablespace, with the right number
foreign-page-mariadb-16k|mariadb-10.11/dynamic-16k|foreign 5 mariadb-10.11/compact-16k|5|5|misplaced_page|a sound page of another tablespace, with the right number
torn-page-mysql-16k|mysql-9.7/dynamic-16k|torn 10 mysql-9.7/dynamic-16k-updated|10|10|torn_page|the first half is of after an update, the second half of before
torn-page-mariadb-16k|mariadb-10.11/dynamic-16k|torn 10 mariadb-10.11/dynamic-16k-updated|10|10|torn_page|the first half is of after an update, the second half of before
lsn-trailer-mysql-16k|mysql-9.7/dynamic-16k|flip 6 16383 0|6|6|lsn_mismatch|the low half of the LSN in the trailer differs; no checksum covers it
zeroed-page-mysql-16k|mysql-9.7/dynamic-16k|zero 5|5|5|zero_page_in_use|a page in use is all zeros, as after a lost write
zeroed-page-mariadb-16k|mariadb-10.11/dynamic-16k|zero 5|5|5|zero_page_in_use|a page in use is all zeros, as after a lost write
zeroed-page-mysql-zip-8k|mysql-9.7/zip-8k|zero 6|6|6|zero_page_in_use|a compressed page in use is all zeros
zeroed-page-0-mysql-16k|mysql-9.7/dynamic-16k|zero 0|0|0|zero_page_in_use|page 0, the space header, is all zeros
zeroed-page-0-mariadb-16k|mariadb-10.11/dynamic-16k|zero 0|0|0|zero_page_in_use|page 0, the space header, is all zeros
truncated-mysql-16k|mysql-9.7/dynamic-16k|cut 2|LAST|LAST|truncated|the last two pages are missing
truncated-mariadb-16k|mariadb-10.11/dynamic-16k|cut 2|LAST|LAST|truncated|the last two pages are missing
size-too-large-mysql-16k|mysql-9.7/dynamic-16k|grow 100|LAST|LAST|truncated|the space header says 100 pages more than there are; its checksum is right
size-too-large-mariadb-16k|mariadb-10.11/dynamic-16k|grow 100|LAST|LAST|truncated|the space header says 100 pages more than there are; its checksum is right
odd-size-mysql-16k|mysql-9.7/dynamic-16k|append 1000|LAST|LAST|partial_page|1000 bytes follow the last page
TABLE
}

# program OPERATION PAGE_SIZE FLAVOUR BASE [OTHER] ARGS...: bytes of the broken file on standard output.
break_bytes() {
    perl - "$@" <<'PERL'
use strict;
use warnings;
my ($operation, $page_size, $full, $base, @args) = @ARGV;
sub slurp { my ($path) = @_; open my $in, '<:raw', $path or die "$path: $!\n"; local $/; return scalar <$in>; }
my @table = map { my $c = $_; $c = $c & 1 ? ($c >> 1) ^ 0x82F63B78 : $c >> 1 for 1 .. 8; $c } 0 .. 255;
sub crc32c {
    my $crc = 0xFFFFFFFF;
    $crc = $table[($crc ^ $_) & 0xFF] ^ ($crc >> 8) for unpack 'C*', $_[0];
    return $crc ^ 0xFFFFFFFF;
}
my $bytes = slurp($base);
sub place { return $_[0] * $page_size }
if ($operation eq 'flip') {
    my ($page, $offset, $bit) = @args;
    substr($bytes, place($page) + $offset, 1) ^= chr(1 << $bit);
} elsif ($operation eq 'swap') {
    my ($first, $second) = map { substr $bytes, place($_), $page_size } @args;
    substr($bytes, place($args[0]), $page_size) = $second;
    substr($bytes, place($args[1]), $page_size) = $first;
} elsif ($operation eq 'foreign') {
    substr($bytes, place($args[0]), $page_size) = substr slurp($args[1]), place($args[0]), $page_size;
} elsif ($operation eq 'torn') {
    my $new = substr slurp($args[1]), place($args[0]), $page_size;
    my $old = substr $bytes, place($args[0]), $page_size;
    substr($new, 20, 4) ne substr($old, 20, 4) or die "page $args[0] was not changed by the update\n";
    substr($bytes, place($args[0]), $page_size / 2) = substr $new, 0, $page_size / 2;
} elsif ($operation eq 'zero') {
    substr($bytes, place($args[0]), $page_size) ne "\0" x $page_size or die "page $args[0] is not in use\n";
    substr($bytes, place($args[0]), $page_size) = "\0" x $page_size;
} elsif ($operation eq 'cut') {
    substr($bytes, -$args[0] * $page_size) = '';
} elsif ($operation eq 'grow') {
    # FSP_SIZE lies at 38 + 8. The page is sealed again: the header lies, but its checksum holds.
    substr($bytes, 46, 4) = pack 'N', unpack('N', substr $bytes, 46, 4) + $args[0];
    if ($full) {
        substr($bytes, $page_size - 4, 4) = pack 'N', crc32c(substr $bytes, 0, $page_size - 4);
    } else {
        my $sum = crc32c(substr $bytes, 4, 22) ^ crc32c(substr $bytes, 38, $page_size - 46);
        substr($bytes, 0, 4) = substr($bytes, $page_size - 8, 4) = pack 'N', $sum;
    }
} elsif ($operation eq 'append') {
    $bytes .= 'x' x $args[0];
} else {
    die "no defect is called $operation\n";
}
binmode STDOUT;
print $bytes;
PERL
}

# Prints the value of KEY in the manifest entry of the fixture FOLDER/NAME.
manifest_value() {
    awk -v want="file = \"${1#*/}.ibd.zst\"" -v key="$2" '
        /^\[\[fixture\]\]/ { found = 0 } $0 == want { found = 1 } found && $1 == key { gsub(/"/, "", $3); print $3; exit }
    ' "$fixtures/${1%%/*}/MANIFEST.toml"
}

# Uncompresses the fixture FOLDER/NAME once and prints its path.
plain() {
    local path="$work/${1//\//_}"
    [ -e "$path" ] || zstd -q -d "$fixtures/$1.ibd.zst" -o "$path"
    printf '%s' "$path"
}

# make_one BASE "OPERATION ARGS" >FILE
make_one() {
    local base="$1" page_size full=0
    local -a words
    read -ra words <<<"$2"
    page_size="$(manifest_value "$base" physical_page_size)"
    [ "$(manifest_value "$base" algorithm)" != full_crc32 ] || full=1
    case "${words[0]}" in foreign | torn) words[2]="$(plain "${words[2]}")" ;; esac
    break_bytes "${words[0]}" "$page_size" "$full" "$(plain "$base")" "${words[@]:1}"
}

# Writes the file and the manifest entry of one defect.
write_one() {
    local name="$1" base="$2" operation="$3" page="$4" damaged="$5" reason="$6" defect="$7" size page_size pages
    make_one "$base" "$operation" >"$work/$name"
    page_size="$(manifest_value "$base" physical_page_size)"
    size="$(stat -c %s "$work/$name")"
    pages=$((size / page_size))
    # A file that is too short misses its first page right after its last.
    page="${page/LAST/$pages}" damaged="${damaged/LAST/$pages}"
    zstd -q -19 -f "$work/$name" -o "$out/$name.ibd.zst"
    {
        printf '[[fixture]]\nfile = "%s.ibd.zst"\nfrom = "%s"\ncommand = "scripts/break-fixture.sh %s"\n' "$name" "$base" "$name"
        printf 'sha256 = "%s"\n' "$(sha256sum <"$work/$name" | cut -d' ' -f1)"
        printf 'page_size = %s\nphysical_page_size = %s\npages = %s\nalgorithm = "%s"\n' "$(manifest_value "$base" page_size)" \
            "$page_size" "$pages" "$(manifest_value "$base" algorithm)"
        printf 'defect = "%s"\npage = %s\ndamaged_pages = [%s]\nreason = "%s"\n\n' "$defect" "$page" "${damaged// /, }" "$reason"
    } >>"$out/MANIFEST.toml"
    rm "$work/$name"
}

main() {
    local only="${1:-}" recipe name base operation page damaged reason defect
    recipe="$(cat "$here/break-fixture.sh" "$fixtures"/m*/MANIFEST.toml | sha256sum | cut -d' ' -f1)"
    if [ -z "$only" ] && grep -qsF "$recipe" "$fixtures/broken/MANIFEST.toml"; then return 0; fi
    command -v zstd >/dev/null || die 'zstd is needed: apt-get install zstd'
    work="$(mktemp -d "${TMPDIR:-/var/tmp}/innokit-broken.XXXXXX")"
    trap 'rm -rf "$work"' EXIT
    out="$work/broken"
    mkdir "$out"
    {
        printf '# Sound fixtures with one defect each. Made by scripts/break-fixture.sh; do not edit.\n'
        printf '# page is that of the first finding, damaged_pages are all; sha256 and pages are of the uncompressed file.\n'
        printf 'recipe = "%s"\n\n' "$recipe"
    } >"$out/MANIFEST.toml"
    while IFS='|' read -r name base operation page damaged reason defect; do
        if [ "$only" = "$name" ]; then
            make_one "$base" "$operation"
            return
        fi
        [ -n "$only" ] || write_one "$name" "$base" "$operation" "$page" "$damaged" "$reason" "$defect"
    done < <(defects)
    [ -z "$only" ] || die "no defect is called $only; they are: $(defects | cut -d'|' -f1 | tr '\n' ' ')"
    rm -rf "${fixtures:?}/broken"
    mv "$out" "$fixtures/broken"
    printf 'break-fixture: %s broken fixtures made\n' "$(defects | wc -l)"
}

main "$@"
