#!/bin/sh
# What the tools of Debian's HDF5 print of any file: tools.sh OUT FILE...
exec > "$1" 2>&1
shift
for name in "$@"
do
    echo "== $name"
    h5ls -r -v "$name" | grep -v Modified
    h5dump -p "$name"; echo "h5dump: $?"
    h5stat "$name"; echo "h5stat: $?"
    h5repack "$name" repacked.h5; echo "h5repack: $?"
    h5diff repacked.h5 "$name"; echo "h5diff: $?"
    rm -f repacked.h5
done
