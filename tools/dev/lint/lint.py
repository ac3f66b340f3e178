"""./dev lint and ./dev format."""

import argparse
import subprocess
import sys
import time

import check_docs
import check_format
import check_headers
import check_layers
import check_scripts
import check_tidy
import sources

CHECKS = {
    "format": check_format.check,
    "layers": check_layers.check,
    "headers": check_headers.check,
    "scripts": check_scripts.check,
    "docs": check_docs.check,
    "tidy": check_tidy.check,
}


def prepare(names):
    """Headers and clang-tidy read the compile database, and what the build generates."""
    from suite import ROOT

    if subprocess.run(["tools/dev/setup.sh", "build", "test"], cwd=ROOT).returncode != 0:
        return False
    if not {"headers", "tidy"} & set(names):
        return True
    if subprocess.run(["tools/dev/build.sh"], cwd=ROOT).returncode != 0:
        return False
    configure = ["cmake", "--preset", "release", "-B", sources.COMPILE_DATABASE.parent, "-DISTHMUS_TOGETHER=OFF", "--no-warn-unused-cli"]
    result = subprocess.run(configure, cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        print(result.stdout + result.stderr)
    return result.returncode == 0


def run(names):
    """Prints failures as a suite does; (passed, failed)."""
    passed = failed = 0
    for name in names:
        begin = time.monotonic()
        results = CHECKS[name]()
        for case, problem in results:
            if problem:
                failed += 1
                print(f"FAIL: {case}")
                for line in problem.splitlines():
                    print(f"    {line}")
            else:
                passed += 1
        wrong = sum(1 for _, problem in results if problem)
        print(f"{name}: {len(results)} checked, {wrong} wrong, {time.monotonic() - begin:.1f} s", flush=True)
    return passed, failed


def main():
    parser = argparse.ArgumentParser(
        prog="./dev lint",
        description="Checks the sources: format, order of the layers, headers that stand alone, scripts, clang-tidy; and the documents' lines. "
        "Results are kept by content in ~/.cache/isthmus-lint, so that a second run is quick. File and function sizes are advice only.",
    )
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}; all without any")
    parser.add_argument("--fix", action="store_true", help="mends what clang-tidy and clang-format can mend, then checks")
    parser.add_argument("--format", action="store_true", help="only rewrites the sources with clang-format, and wraps prose (./dev format)")
    arguments = parser.parse_args()
    names = arguments.checks or list(CHECKS)
    for name in names:
        if name not in CHECKS:
            parser.error(f"there is no check '{name}'; there are: {', '.join(CHECKS)}")

    if not prepare([] if arguments.format else names):
        return 1
    if arguments.fix and "tidy" in names:
        check_tidy.check(fix=True)
    if arguments.fix or arguments.format:
        print(f"formatted {check_format.rewrite()} files, and wrapped {check_docs.rewrite()} documents")
        if arguments.format:
            return 0
        sources.includes.cache_clear()

    passed, failed = run(names)
    for line in check_scripts.size_advice():
        print(f"advice: {line}")
    sources.prune_cache()
    print(f"lint: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
