package browser_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// TestSettings_LostPagesEndBrowser opens more pages than the worker notices: some would have no
// settings.
func TestSettings_LostPagesEndBrowser(t *testing.T) {
	log := &testenv.Log{}
	r := newFixtureWith(t, func(o *browser.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	spec := r.spec("lagging")
	spec.Warm = true
	b := r.launch(t, spec)
	browser.SetTargetQueue(b, 8)
	spec.Warm, spec.ExtraHTTPHeaders = false, map[string]string{"X-Probe": "yes"}
	if err := b.Configure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	release := browser.HoldSettings(b)
	for range 12 {
		if err := b.CDP().Call(t.Context(), "", "Target.createTarget", map[string]any{"url": "about:blank"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	release()
	select {
	case <-b.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the browser continues without settings for some pages")
	}
	if !b.Exit().Killed || !strings.Contains(log.String(), `level=ERROR msg="browser ended: pages opened faster than settings could be applied" launchId=lagging`) {
		t.Errorf("exit %+v, logged:\n%s", b.Exit(), log)
	}
}
