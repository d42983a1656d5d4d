# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Command lines: options, exit codes, messages, and that help, man pages and programs agree."""
import json
import os
import re
import subprocess

import pytest

from harness import SLOW, binary

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GOOD = "pools:\n  - backends: [http://127.0.0.1:9001]\n"


def run(program, *args, **kwargs):
    return subprocess.run([binary(program), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=20 * SLOW, text=True, **kwargs)


def check(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return run("kvsteerd", "--check", "-c", str(path)), str(path)


def test_check_good(tmp_path):
    """A pool with its backends is a whole file: one line, exit 0, nothing on stderr."""
    r, path = check(tmp_path, GOOD)
    assert (r.returncode, r.stderr) == (0, "")
    assert r.stdout == path + ": good: 1 listener, 1 pool, 1 backend\n"


@pytest.mark.parametrize("text,where,says", [
    ("workers: 0\n" + GOOD, "1:10", 'workers: "0": out of range; allowed: 1..64, or auto'),
    ("polls: 3\n" + GOOD, "1:1", 'polls: "polls": unknown key; did you mean "pools"?'),
    (GOOD + "    request_splice: full\n", "3:21", "not in this version"),
    (GOOD.replace("http:", "https:"), "2:16", "https: not in this version"),
    ("pools: {", "2:1", "not YAML"),
    ("", "1:1", "the file is empty"),
])
def test_check_faults(tmp_path, text, where, says):
    """A fault: file, line, column, key, what was given, what is allowed; exit 2."""
    r, path = check(tmp_path, text)
    assert r.returncode == 2 and r.stdout == ""
    assert r.stderr.startswith("kvsteerd: %s:%s: " % (path, where)), r.stderr
    assert says in r.stderr and r.stderr.count("\n") == 1


def test_check_needs_no_network(tmp_path):
    """Names are resolved at the start, not by the check: a laptop can check a fleet's file."""
    r, _ = check(tmp_path, "pools:\n  - backends: [http://no-such-host.invalid:9001]\n")
    assert r.returncode == 0, r.stderr


def test_start_with_a_fault(tmp_path):
    """The same message and exit code without --check."""
    path = tmp_path / "c.yaml"
    path.write_text("workers: many\n" + GOOD)
    r = run("kvsteerd", "-c", str(path))
    assert r.returncode == 2 and '1:10: workers: "many": not a whole number' in r.stderr
    r = run("kvsteerd", "-c", str(tmp_path / "none"))
    assert r.returncode == 2 and "No such file" in r.stderr


def test_kvsteerd_usage():
    assert run("kvsteerd").returncode == 2
    assert run("kvsteerd", "--nonsense").returncode == 2
    assert run("kvsteerd", "-c", "x", "y").returncode == 2
    assert re.fullmatch(r"kvsteerd \d+\.\d+\.\d+\n", run("kvsteerd", "--version").stdout)
    assert run("kvsteerd", "--help").returncode == 0


def test_reference_page_is_current():
    """docs/configuration.md is what the program says of itself."""
    with open(os.path.join(ROOT, "docs", "configuration.md")) as f:
        assert run("kvsteerd", "--config-reference").stdout == f.read()


MAN = {"kvsteerd": 8, "kvsteerctl": 8, "kvsteer-gpusim": 1, "kvsteer-load": 1}


def man_text(name):
    with open(os.path.join(ROOT, "docs", "%s.%d" % (name, MAN[name]))) as f:
        text = f.read()
    text = re.sub(r"\\f.", "", text).replace("\\-", "-")
    # macros that mix fonts put their words together without blanks
    lines = [re.sub(r'^\.(BR|RB|BI|IR|RI) (.*)$', lambda m: m.group(2).replace('" ', "").replace('"', ""), line) for line in text.splitlines()]
    return "\n".join(lines)


@pytest.mark.parametrize("program", sorted(MAN))
def test_help_and_man_page_agree(program):
    """Every option of --help is in the man page, and the other way round; so are kvsteerctl's commands, the
    simulator's faults and the names of workloads."""
    help_text, man = run(program, "--help").stdout, man_text(program)
    options = lambda text: set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert options(help_text) and options(help_text) == options(man)
    if program == "kvsteerctl":
        commands = re.findall(r"^  ([a-z]+(?: [a-z]+)?)(?: [A-Z\[].*?)?  ", help_text.split("Options:")[0], re.M)
        assert len(commands) >= 11
        for command in commands:
            assert re.search(r"^(\.B )?%s\b" % command, man, re.M), command


def section(man, name):
    return man.split("\n.SH %s\n" % name)[1].split("\n.SH ")[0]


def test_names_in_help_and_man_pages_agree():
    """What an option takes is told in both places, name by name: kinds of fault, workloads."""
    told = run("kvsteer-gpusim", "--help").stdout.split("Kinds of fault:")[1].split("\n\n")[0]
    kinds = re.findall(r"(?<=  )([a-z0-9-]+)  +(?=\S)", told)
    man = section(man_text("kvsteer-gpusim"), "FAULTS")
    assert len(kinds) == 11 and sorted(kinds) == sorted(re.findall(r"^\.B (.*)$", man, re.M))
    text = re.search(r"^  --workload W +(.*)$", run("kvsteer-load", "--help").stdout, re.M).group(1)
    workloads = re.findall(r"[a-z0-9]+", text.replace(" or trace:FILE", ""))
    man = section(man_text("kvsteer-load"), "WORKLOADS")
    assert len(workloads) == 7 and workloads == re.findall(r"^\.B (.*)$", man, re.M)
    assert ".BI trace: FILE" in section(open(os.path.join(ROOT, "docs", "kvsteer-load.1")).read(), "WORKLOADS")


def test_kvsteerctl_usage(tmp_path):
    """2 for wrong usage, 1 where the daemon does not answer; with -j errors are JSON on stdout."""
    sock = str(tmp_path / "none.sock")
    for args in ([], ["nonsense"], ["backend"], ["backend", "nonsense"], ["backend", "drain"], ["backend", "list", "x"], ["--nonsense"]):
        r = run("kvsteerctl", *args)
        assert r.returncode == 2 and r.stdout == "" and r.stderr, args
    r = run("kvsteerctl", "-s", sock, "status")
    assert r.returncode == 1 and sock in r.stderr and r.stdout == ""
    for args, code, name in ((["backend", "drain"], 2, "usage"), (["nonsense"], 2, "usage"), ([], 2, "usage"), (["status"], 1, "no_daemon"),
                             (["doctor"], 1, "no_daemon"), (["upgrade"], 1, "not_in_this_version"),
                             (["route", "explain", str(tmp_path / "none")], 1, "bad_file")):
        r = run("kvsteerctl", "-s", sock, "-j", *args)
        assert r.returncode == code and r.stderr == "", args
        assert json.loads(r.stdout)["error"]["code"] == name
    assert re.fullmatch(r"kvsteerctl \d+\.\d+\.\d+\n", run("kvsteerctl", "--version").stdout)
