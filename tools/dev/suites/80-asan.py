# title: suites once more under AddressSanitizer and UndefinedBehaviorSanitizer
# timeout: 2400
import sys

sys.path.insert(0, "tools/dev")
import sanitized

sanitized.run(
    "asan",
    {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    },
)
