package launch_test

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func TestSession_ReportsOutOfMemory(t *testing.T) {
	for _, tc := range []struct {
		name   string
		signal syscall.Signal
		more   uint64
		want   session.EndReason
	}{
		{"killed while the counter rose", syscall.SIGKILL, 1, session.OutOfMemory},
		{"killed without a kernel count", syscall.SIGKILL, 0, session.Crash},
		{"another signal", syscall.SIGABRT, 1, session.Crash},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var count atomic.Uint64
			count.Store(3)
			r := newFixture(t, func(o *launch.Options) { o.OutOfMemory = count.Load })
			s := r.launch(t, byProfile())
			count.Add(tc.more)
			if err := syscall.Kill(r.browser(t, s).PID(), tc.signal); err != nil {
				t.Fatal(err)
			}
			if end := r.awaitEnd(t, 10*time.Second); end.Reason != tc.want || end.Status != session.Exited {
				t.Errorf("reported %+v, want %s", end, tc.want)
			}
		})
	}
}
