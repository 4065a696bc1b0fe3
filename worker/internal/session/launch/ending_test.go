package launch_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// acceptClose makes the worker believe that the browser has accepted Browser.close.
func (r *fixture) acceptClose(t *testing.T, s session.Session) {
	t.Helper()
	client := r.browser(t, s).Calls().Connect()
	t.Cleanup(client.Close)
	client.HandleMessage(wsframe.Message{Opcode: wsframe.Text, Raw: wsframe.FromClient(wsframe.Text, []byte(`{"id":1,"method":"Browser.close"}`))})
	if _, accepted := client.HandleAnswer(wsframe.Message{Opcode: wsframe.Text, Raw: wsframe.FromServer(wsframe.Text, []byte(`{"id":1,"result":{}}`))}); !accepted {
		t.Fatal("the answer was not recognized")
	}
}

func TestSession_KilledIfItDoesNotCloseAsAccepted(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.withCountingAdmission()
	request := byProfile()
	request.Engine = builds.Chromium // the worker ends a headless shell at once
	s := r.launch(t, request)
	r.acceptClose(t, s)
	ended, ok := r.AwaitEnd(t.Context(), s.LaunchID)
	if !ok || ended.Status != session.Killed || ended.EndReason != session.ClientClose {
		t.Errorf("ended as %s/%s, %v", ended.Status, ended.EndReason, ok)
	}
	r.launch(t, request)
}

func TestAwaitEnd_WaitsForRecord(t *testing.T) {
	recording, record := make(chan struct{}), make(chan struct{})
	r := newFixture(t, func(o *launch.Options) { o.Reports = heldReports{o.Reports, recording, record} })
	s := r.launch(t, byProfile())
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, ok := r.AwaitEnd(gone, s.LaunchID); ok {
		t.Error("the running session counts as ended")
	}
	r.acceptClose(t, s)
	recorded := make(chan bool, 1)
	go func() {
		ended, ok := r.AwaitEnd(t.Context(), s.LaunchID)
		recorded <- ok && ended.EndReason == session.ClientClose && len(r.cloud.ends()) == 1
	}()
	<-recording
	if _, ok := r.AwaitEnd(gone, s.LaunchID); ok {
		t.Error("AwaitEnd did not wait for the record")
	}
	close(record)
	if !<-recorded {
		t.Error("AwaitEnd returned without the recorded end")
	}
}

// heldReports records ends when record is closed.
type heldReports struct {
	launch.Reports
	recording chan<- struct{}
	record    <-chan struct{}
}

func (r heldReports) Ended(ended launch.Ended) {
	close(r.recording)
	<-r.record
	r.Reports.Ended(ended)
}

// A session ends, and its end is delivered, after the cloud has decided to refuse a launch
// and before the worker has the answer.
func TestLaunch_RetriesIfSessionEndedDuringDecision(t *testing.T) {
	var decided func()
	r := newFixture(t, func(o *launch.Options) { o.License = lateLicense{o.License, &decided} })
	var full atomic.Bool
	r.cloud.decide = func(launch.Authorization) (bool, error) {
		if full.Load() {
			return true, fault.New(fault.PaymentRequired, "All slots of the organization are in use.")
		}
		return false, nil
	}
	s := r.launch(t, byProfile())
	full.Store(true)
	decided = func() {
		decided = nil
		if _, err := r.Kill(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		r.cloud.Carried(r.cloud.ends())
		full.Store(false)
	}
	r.launch(t, byProfile())
}

// lateLicense calls decided before it returns an answer.
type lateLicense struct {
	launch.License
	decided *func()
}

func (l lateLicense) Authorize(ctx context.Context, request launch.Authorization) (launch.Grant, error) {
	grant, err := l.License.Authorize(ctx, request)
	if decided := *l.decided; decided != nil {
		decided()
	}
	return grant, err
}
