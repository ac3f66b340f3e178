# title: format, layer order, stand-alone headers, scripts, clang-tidy
# timeout: 1500
exec python3 tools/dev/lint.py
