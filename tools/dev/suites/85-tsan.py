# title: suites once more under ThreadSanitizer
# timeout: 1500
import sys

sys.path.insert(0, "tools/dev")
import sanitized

# g++ 12's ThreadSanitizer does not start where the kernel places libraries at more random addresses than it knows.
sanitized.run("tsan", {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:report_thread_leaks=0"}, before=["setarch", "-R"])
