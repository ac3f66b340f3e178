# title: the standard ABI: headers, symbols, compilers, profiling, interchange with another MPI
# timeout: 900
# about: include/* src/abi/* tools/wrappers/*
# reads: test/abi/* tools/wrappers/*
import runpy

runpy.run_path("test/abi/run.py", run_name="__main__")
