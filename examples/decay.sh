#!/bin/sh
# A simulator that is no Python: counts of a decaying source in six time bins, as Poisson numbers, by awk.
#
#   decay.sh INPUT OUTPUT SEED
#
# INPUT is JSON: {"theta": {"amplitude": 40.0, "lifetime": 1.2}, "seed": 7}
# OUTPUT is a .npy file: a short header, then six unsigned 16-bit integers, low byte first.
set -eu
value() { sed "s/.*\"$1\": *\([-+0-9.eE]*\).*/\1/" "$2"; }

counts=$(awk -v amplitude="$(value amplitude "$1")" -v lifetime="$(value lifetime "$1")" -v seed="$3" '
function poisson(mean,    n, product) {           # Knuth: multiply uniform numbers until below exp(-mean)
    product = 1
    for (n = -1; product > exp(-mean); n++) product *= rand()
    return n < 0 ? 0 : n
}
BEGIN {
    srand(seed)
    for (k = 0; k < 6; k++) {
        mean = amplitude * (exp(-k / 2 / lifetime) - exp(-(k + 1) / 2 / lifetime))
        printf "%d ", poisson(mean)
    }
}')

header="{'descr': '<u2', 'fortran_order': False, 'shape': (6,), }"
while [ $(( (11 + ${#header}) % 64 )) -ne 0 ]; do header="$header "; done
byte() { printf "\\$(printf '%03o' "$1")"; }
{
    printf '\223NUMPY\001\000'
    byte $(( (${#header} + 1) % 256 )); byte $(( (${#header} + 1) / 256 ))
    printf '%s\n' "$header"
    for n in $counts; do byte $((n % 256)); byte $((n / 256)); done
} > "$2"
