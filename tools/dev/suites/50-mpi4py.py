# title: mpi4py built from source with our mpicc, and its own tests
# timeout: 1200
# about: include/* src/abi/* src/coll/* src/comm/* src/datatype/*
# reads: test/mpi4py/*
import runpy

runpy.run_path("test/mpi4py/run.py", run_name="__main__")
