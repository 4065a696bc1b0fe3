package app_test

import (
	"testing"

	"github.com/browser-svc/svc/worker/internal/app"
)

func TestSelftest_RejectsZeroDuration(t *testing.T) {
	for _, flags := range [][]string{{"--seconds", "0"}, {"--rounds", "-1"}} {
		if status := app.Main(append([]string{"selftest"}, flags...)); status != 1 {
			t.Errorf("%v: status %d, want 1", flags, status)
		}
	}
}
