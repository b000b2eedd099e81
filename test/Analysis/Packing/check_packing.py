#!/usr/bin/env python3
# ===- check_packing.py - is a packing valid? -------------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_packing.py IN.csv OUT.csv CAPACITY [ALIGNMENT]: compares every pair of
# buffers. Shares nothing with the packer but the file format.
#
# ===------------------------------------------------------------------------=== #

import csv
import sys


def read(path):
    with open(path, newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def main():
    given, packed = read(sys.argv[1]), read(sys.argv[2])
    capacity = int(sys.argv[3])
    alignment = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    if given.keys() != packed.keys():
        sys.exit(f"error: the buffers differ: {sorted(given.keys() ^ packed.keys())[:5]}")
    buffers = []
    for name, row in packed.items():
        for key in ("lower", "upper", "size"):
            if int(row[key]) != int(given[name][key]):
                sys.exit(f"error: {key} of {name} changed from {given[name][key]} to {row[key]}")
        lower, upper, size, offset = (int(row[key]) for key in ("lower", "upper", "size", "offset"))
        if offset < 0 or offset % alignment or offset + size > capacity:
            sys.exit(f"error: buffer {name} is at {offset} with {size} bytes")
        if size:
            buffers.append((lower, upper, offset, offset + size, name))
    for i, (lower, upper, begin, end, name) in enumerate(buffers):
        for lower2, upper2, begin2, end2, name2 in buffers[i + 1 :]:
            if lower < upper2 and lower2 < upper and begin < end2 and begin2 < end:
                sys.exit(f"error: buffers {name} and {name2} overlap in time and address")
    print(f"{len(buffers)} buffers, height {max((b[3] for b in buffers), default=0)}")


main()
