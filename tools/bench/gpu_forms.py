#!/usr/bin/env python3
"""Applications in each form of communication, on the GPUs of this machine: times, what is gained on the synchronous form, and what isthmus model
says of it beforehand, from the synchronous form alone. Each form checks its answer; a wrong one ends this with status 1.

On a machine with two GPUs, from the bundle: gpu-bundle/run python3 gpu-bundle/bench/gpu_forms.py [--json FILE] [--quick]"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

FORMS = "sync,stream,graph,kernel"
# Name, program, its arguments, its forms, time steps in what isthmus model observes.
MULTIGRID = ("--cycles", "20", "--repeats", "10")
MOLECULAR = ("--steps", "100", "--repeats", "3")
JACOBI = ("--halo", "pack", "--tolerance", "0", "--iterations", "2000", "--residual-every", "50")
CASES = (
    ("multigrid 8 x 8^3", "multigrid", ("--box", "8", *MULTIGRID), FORMS, 200),
    ("multigrid 8 x 16^3", "multigrid", ("--box", "16", *MULTIGRID), FORMS, 200),
    ("multigrid 8 x 32^3", "multigrid", ("--box", "32", *MULTIGRID), FORMS, 200),
    ("multigrid 8 x 64^3", "multigrid", ("--box", "64", *MULTIGRID), FORMS, 200),
    ("molecular 2048 atoms", "molecular", ("--edge", "8", *MOLECULAR), FORMS, 300),
    ("molecular 16384 atoms", "molecular", ("--edge", "16", *MOLECULAR), FORMS, 300),
    ("breadth_first 2^18", "breadth_first", ("--scale", "18", "--roots", "4", "--repeats", "5"), "sync,stream,kernel", 20),
    ("jacobi3d 64^3", "jacobi3d", ("-n", "64", *JACOBI), "sync,stream,kernel", 2000),
    ("jacobi3d 128^3", "jacobi3d", ("-n", "128", *JACOBI), "sync,stream,kernel", 2000),
    ("jacobi3d 256^3", "jacobi3d", ("-n", "256", *JACOBI), "sync,stream,kernel", 2000),
)
QUICK = ("multigrid 8 x 16^3", "molecular 2048 atoms", "jacobi3d 64^3")
LIMIT = 60  # seconds for a command
# What isthmus model calls a form; of kernels it says between which.
PREDICTED = {"sync": ("sync", "sync"), "stream": ("stream", "stream"), "graph": ("graph", "graph"), "kernel": ("kernel_best", "kernel_worst")}


def find(program):
    """In PATH, as in a bundle, or of this tree's build."""
    found = shutil.which(program)
    if found:
        return found
    release = Path(__file__).resolve().parents[2] / "build/release"
    for path in (release / "bin" / program, release / "apps" / program / program):
        if path.exists():
            return str(path)
    sys.exit(f"gpu_forms: there is no {program} in PATH or in build/release: ./dev build, or use ./dev gpu-bundle")


def run(command):
    """The JSON that it prints; (None, why) where it fails."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None, f"took more than {LIMIT} s"
    try:
        return json.loads(done.stdout), "" if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()[-500:]}"
    except ValueError:
        return None, f"status {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}"


def measure(case, ranks, way):
    """(measured forms by name, prediction or None, problems)"""
    _, program, arguments, forms, _ = case
    application = [find(program), "--gpu", "--json", *arguments]
    measured, why = run([find("mpiexec"), "-n", ranks, *application, "--form", forms, "--by", way])
    problems = [f"{program}: {why}"] if why else []
    if measured and not measured["correct"]:
        problems.append(f"{program}: a form gives a wrong answer")
    prediction, why = run([find("isthmus"), "model", "--json", find("mpiexec"), "-n", ranks, *application])
    if why:
        problems.append(f"isthmus model of {program}: {why}")
    return {form["form"]: form for form in measured["forms"]} if measured else {}, prediction, problems


def rows_of(case, forms, prediction):
    """For each form what was measured and predicted, in microseconds a step."""
    steps = case[4]
    sync = forms.get("sync")
    for name, form in forms.items():
        row = {"case": case[0], "form": name, "us": 1e6 * form["step_seconds"], "gain": form.get("gain_percent"), "correct": form["correct"]}
        if prediction and prediction["seconds"] and sync:
            keys = PREDICTED[name]
            if any(prediction["seconds"][key] is None for key in keys):  # why not, isthmus model has said
                yield row
                continue
            low, high = (1e6 * prediction["seconds"][key] / steps for key in keys)
            row["predicted"] = [low, high]
            row["ratio"] = min(max(row["us"], low), high) / row["us"] if low != high else low / row["us"]
            row["predicted_gain"] = 100 * (1 - high / (1e6 * prediction["seconds"]["sync"] / steps))
        yield row


def show(row):
    gain = "" if row["gain"] is None else f"{row['gain']:+.1f} %"
    predicted = ratio = predicted_gain = ""
    if "predicted" in row:
        low, high = row["predicted"]
        predicted = f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"
        ratio = f"{row['ratio']:.2f}"
        predicted_gain = "" if row["form"] == "sync" else f"{row['predicted_gain']:+.1f} %"
    wrong = "" if row["correct"] else "  WRONG"
    print(f"{row['case']:<22} {row['form']:<7} {row['us']:>10.1f} {gain:>9}  {predicted:>18} {ratio:>6} {predicted_gain:>9}{wrong}", flush=True)


def show_conditions(case, prediction):
    seconds = prediction["seconds"] if prediction else None
    if not seconds:
        return
    scale = 1e6 / case[4]
    texts = [
        f"{name.upper()} {seconds[name]['left'] * scale:.1f} < {seconds[name]['right'] * scale:.1f}{'' if seconds[name]['holds'] else ' does not hold'}"
        for name in ("c1", "c2")
    ]
    print(f"{'':<22} {', '.join(texts)}, C3 {seconds['c3']['fragments']:.1f} launches between waits", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write what was found there, too")
    parser.add_argument("--quick", action="store_true", help="three small cases")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="processes, each on a GPU where there are as many (2)")
    parser.add_argument("--by", default="prepared", choices=("prepared", "mpi"), help="what is enqueued, as the option of the applications")
    parser.add_argument("--seconds", type=float, default=170, metavar="N", help="begin no case after so many (170)")
    options = parser.parse_args()
    begin = time.monotonic()
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    print(f"{'':<22} {'form':<7} {'us a step':>10} {'gain':>9}  {'predicted':>18} {'ratio':>6} {'gain':>9}", flush=True)
    found, problems = [], []
    for case in CASES:
        if options.quick and case[0] not in QUICK:
            continue
        if time.monotonic() - begin > options.seconds:
            problems.append(f"{case[0]}: left out, after {options.seconds:.0f} s")
            continue
        forms, prediction, wrong = measure(case, options.ranks, options.by)
        problems += wrong
        rows = list(rows_of(case, forms, prediction))
        for row in rows:
            show(row)
        show_conditions(case, prediction)
        found.append({"case": case[0], "rows": rows, "model": prediction})
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for problem in problems:
        print(f"gpu_forms: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
