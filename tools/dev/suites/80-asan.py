# title: suites once more under AddressSanitizer and UndefinedBehaviorSanitizer
# timeout: 2400
# about: none
# ahead: tools/dev/build.sh --preset asan
import sys

sys.path.insert(0, "tools/dev")
import sanitized

sanitized.run(
    "asan",
    {
        "ASAN_OPTIONS": f"detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1:{sanitized.SYMBOLIZER}",
        "LSAN_OPTIONS": f"suppressions={sanitized.ROOT}/tools/dev/leaks.txt:print_suppressions=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # UCX writes jumps of 32 bits into the C library's functions, and clang's run-time library, which stands before them, is farther away.
        "UCX_MEM_MMAP_HOOK_MODE": "none",
    },
)
