# title: the standard ABI: headers, symbols, compilers, profiling, interchange with another MPI
# timeout: 900
import runpy

runpy.run_path("test/abi/run.py", run_name="__main__")
