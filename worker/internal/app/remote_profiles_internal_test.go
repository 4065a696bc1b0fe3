package app

import (
	"testing"

	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// A version must not become the current one after its objects were deleted.
func TestPendingTime_IsLongerThanReports(t *testing.T) {
	if report.MaxCommitAge >= profiledata.PendingTime {
		t.Errorf("reports are given up after %v, and versions after %v", report.MaxCommitAge, profiledata.PendingTime)
	}
}
