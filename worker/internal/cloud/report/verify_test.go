package report_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
)

func TestRequestHeartbeat_SendsOwnHeartbeatAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		time.Sleep(time.Second)
		before := len(r.cloud.heartbeats())
		r.RequestHeartbeat()
		r.RequestHeartbeat() // does not block
		synctest.Wait()
		if n := len(r.cloud.heartbeats()) - before; n < 1 || n > 2 {
			t.Errorf("%d heartbeats at once, want one", n)
		}
	})
}

func TestHeartbeat_WithoutKeyPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.self.Key = session.OrganizationKey{}
		var err error
		if r.Reporter, err = report.New(r.cloud, r.sessions, r.dir, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		r.run(t)
		defer r.stop()
		pings := func() int { return len(r.cloud.filter(func(k call) bool { return k.what == "reach" })) }
		time.Sleep(70 * time.Second)
		if n := pings(); n < 2 || n > 4 {
			t.Errorf("got %d calls in 70 seconds, want about three", n)
		}
		r.cloud.set(func() { r.cloud.down, r.cloud.calls = true, nil })
		time.Sleep(5 * time.Minute)
		if n := pings(); n < 25 {
			t.Errorf("got %d calls in five minutes of an outage, want more often", n)
		}
		if len(r.cloud.heartbeats()) > 0 {
			t.Error("got a heartbeat without a key")
		}
	})
}
