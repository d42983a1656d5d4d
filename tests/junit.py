# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Reads a JUnit file: prints `PASSED FAILED`, then one skipped test a line."""
import sys
import xml.etree.ElementTree as ET

passed, failed, skipped = 0, 0, []
for case in ET.parse(sys.argv[1]).iter("testcase"):
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        failed += 1
    elif "skipped" in kinds:
        skipped.append("e2e/%s::%s" % (case.get("classname"), case.get("name")))
    else:
        passed += 1
print(passed, failed)
for name in skipped:
    print(name)
