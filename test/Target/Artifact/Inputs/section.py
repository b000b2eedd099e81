# ===- section.py - prints a section of an artifact ---------------------------=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reads the container as docs/artifact.md describes it; the manifest is printed
# as JSON with one key a line.
#
# ===--------------------------------------------------------------------------=== #

import json
import struct
import sys

data = open(sys.argv[1], "rb").read()
count = struct.unpack_from("<I", data, 12)[0]
for i in range(count):
    name, offset, size = struct.unpack_from("<16sQQ", data, 16 + 64 * i)
    if name.rstrip(b"\0").decode() == sys.argv[2]:
        print(json.dumps(json.loads(data[offset : offset + size]), indent=1, sort_keys=True))
