package app

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// workerVariable makes this program the worker's.
const workerVariable = "SVC_TEST_WORKER"

// TestMain makes this program the first process of a launch's sandbox, or decrypts a key, if it is
// started as one, as the worker's program does.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" || len(os.Args) > 1 && (os.Args[1] == sandbox.Command || os.Args[1] == certs.DecryptCommand) {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestCheckIsolation_LogsOrRefusesMissingPiece(t *testing.T) {
	report := sandbox.Report{Pieces: []sandbox.Piece{{Name: "networkNamespace", On: true}, {Name: "cgroupKill", Reason: "read-only"}, {Name: "privateFiles", Reason: "denied"}}}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if err := (Config{}).checkIsolation(report, logger); err != nil || !strings.Contains(log.String(), "cgroupKill") || strings.Contains(log.String(), "networkNamespace") {
		t.Errorf("%v; logged %s", err, &log)
	}
	err := Config{MinIsolation: isolationFull}.checkIsolation(report, logger)
	if err == nil || !strings.Contains(err.Error(), "privateFiles: denied") || strings.Contains(err.Error(), "cgroupKill") {
		t.Errorf("required: %v", err)
	}
	if err := (Config{MinIsolation: isolationFull}).checkIsolation(sandbox.Report{Pieces: report.Pieces[:2]}, logger); err != nil {
		t.Errorf("without a limit: got %v, want no error", err)
	}
	if reasons := (Config{MinIsolation: isolationFull}).isolationReasons(report); len(reasons) != 1 || reasons[0].Code != "isolation" || !strings.Contains(reasons[0].Message, "privateFiles") {
		t.Errorf("got ready with MIN_ISOLATION=full and a missing feature: %+v", reasons)
	}
	if reasons := append((Config{}).isolationReasons(report), (Config{MinIsolation: isolationFull}).isolationReasons(sandbox.Report{})...); len(reasons) > 0 {
		t.Errorf("got not ready: %+v", reasons)
	}
	if !(Config{MinIsolation: isolationNone}).noSandboxAllowed() || (Config{MinIsolation: isolationSandbox}).noSandboxAllowed() || (Config{MinIsolation: isolationFull}).noSandboxAllowed() {
		t.Error("noSandboxAllowed is not true exactly with MIN_ISOLATION=none")
	}
}
func TestCheckDescriptors_WarnsWhenLimitIsTooLow(t *testing.T) {
	for _, tc := range []struct {
		sessions int
		limit    uint64
		logged   bool
	}{{0, 1024, false}, {1, 1024, true}, {8, 20_000, true}, {8, 1 << 20, false}, {200, 1 << 20, true}} {
		var log strings.Builder
		Config{MaxSessions: tc.sessions}.checkDescriptors(tc.limit, slog.New(slog.NewTextHandler(&log, nil)))
		if logged := strings.Contains(log.String(), "open files"); logged != tc.logged {
			t.Errorf("%d sessions, %d descriptors: logged a warning: %v, want %v", tc.sessions, tc.limit, logged, tc.logged)
		}
	}
}
