# title: suites once more under ThreadSanitizer
# timeout: 1500
# about: none
# ahead: tools/dev/build.sh --preset tsan
import sys

sys.path.insert(0, "tools/dev")
import sanitized

sanitized.run("tsan", {"TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:report_thread_leaks=0:{sanitized.SYMBOLIZER}"})
