package app_test

import (
	"slices"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestHealth_NamesMissingScripts waits until the worker has checked the fonts.
func TestHealth_NamesMissingScripts(t *testing.T) {
	want, err := browser.MissingScripts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.WarmPool = nil })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		_, text := r.call(t.Context(), t, "GET", "/health", "")
		got := decode[workerapi.WorkerHealthResponse](t, text).Data.MissingScripts
		if got != nil {
			if !slices.EqualFunc(*got, want, func(a workerapi.WritingScript, b string) bool { return string(a) == b }) {
				t.Errorf("missing scripts: got %v, want %v", *got, want)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the fonts were not checked")
		}
	}
}
