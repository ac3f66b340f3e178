# title: format, layer order, stand-alone headers, scripts, clang-tidy
# timeout: 1500
# runs: none
# reads: *
exec python3 tools/dev/lint/lint.py
