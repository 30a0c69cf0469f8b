#!/bin/sh
# What programs of habits for the shell begin with: the content of steps, and telling what was read.
set -eu
N=6
last=$((N - 1))
text() { seq "$1" $(($1 + 999)); }
show() { echo "= $1 $(cksum)"; }  # of standard input
steps() { seq 0 $last; }
