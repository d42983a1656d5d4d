# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the documents name exists."""
import os
import re

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def read(*path):
    with open(os.path.join(ROOT, *path)) as f:
        return f.read()


def test_testing_page_names_real_tests():
    """docs/testing.md: each `file::test` is in that file, as a test that its main() runs or that pytest finds."""
    named = re.findall(r"`((?:[a-z_]+/)?test_\w+\.(?:c|py))(?:::(\w+))?`", read("docs", "testing.md"))
    assert len(named) > 50
    missing = []
    for path, test in named:
        where = ("tests", "unit") if path.endswith(".c") else ("tests", "e2e")
        if not os.path.exists(os.path.join(ROOT, *where, path)):
            missing.append(path)
            continue
        text = read(*where, path)
        pattern = r"cmocka_unit_test\w*\(%s\b" if path.endswith(".c") else r"^def %s\("
        if test and not re.search(pattern.replace("%s", test), text, re.M):
            missing.append("%s::%s" % (path, test))
    assert not missing
