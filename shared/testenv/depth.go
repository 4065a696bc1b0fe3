package testenv

import "os"

// depthVariable set to "full" runs tests with all their repetitions and
// combinations, as `make proof` does.
const depthVariable = "SVC_TEST_DEPTH"

// Full reports whether tests run at full depth.
func Full() bool { return os.Getenv(depthVariable) == "full" }

// Depth returns the number of repetitions to run: full at full depth, else quick.
func Depth(quick, full int) int {
	if Full() {
		return full
	}
	return quick
}
