package handover_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
)

var captcha = handover.Request{Reason: "Solve the captcha.", Timeout: time.Hour}

func begin(t *testing.T, h *handover.Handovers, r handover.Request) *handover.Handover {
	t.Helper()
	result, err := h.Begin(r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestHandovers_EndOnce(t *testing.T) {
	for want, end := range map[handover.Outcome]func(*handover.Handovers, *handover.Handover){
		handover.Done:         func(h *handover.Handovers, _ *handover.Handover) { _, _ = h.Finish("ok") },
		handover.Canceled:     func(_ *handover.Handovers, opened *handover.Handover) { opened.Cancel() },
		handover.BrowserEnded: func(h *handover.Handovers, _ *handover.Handover) { h.Close() },
	} {
		h := handover.New()
		var observed []handover.Outcome
		h.Observe(func(opened handover.Handover) func(handover.Result) {
			if opened.Reason != captcha.Reason || opened.Until.Sub(opened.Since) != captcha.Timeout {
				t.Errorf("observed %+v", opened)
			}
			return func(r handover.Result) { observed = append(observed, r.Outcome) }
		})
		if h.Held() != nil || h.Open() != nil {
			t.Error("held before the begin")
		}
		_, changed := h.Last()
		opened := begin(t, h, captcha)
		<-changed
		held := h.Held()
		if last, _ := h.Last(); held == nil || held.Err() != nil || last != opened || h.Open() != opened {
			t.Fatal("not open")
		}
		if _, err := h.Begin(captcha); !errors.Is(err, handover.ErrOpen) {
			t.Errorf("a second one: %v", err)
		}
		end(h, opened)
		<-held.Done()
		end(h, opened)
		opened.Cancel()
		result, ok := opened.Result()
		if !ok || result.Outcome != want || len(observed) != 1 || observed[0] != want || h.Held() != nil {
			t.Errorf("%s: got %+v, observed %v", want, result, observed)
		}
		if wantNote := map[bool]string{true: "ok"}[want == handover.Done]; result.Note != wantNote {
			t.Errorf("%s: got note %q", want, result.Note)
		}
		_, err := h.Begin(captcha)
		if refused := errors.Is(err, handover.ErrEnded); refused != (want == handover.BrowserEnded) {
			t.Errorf("after %s: %v", want, err)
		}
	}
}

func TestHandovers_TimeOut(t *testing.T) {
	h := handover.New()
	opened := begin(t, h, handover.Request{Reason: "Wait.", Timeout: handover.MinTimeout})
	<-opened.Ended()
	if result, _ := opened.Result(); result.Outcome != handover.TimedOut || result.Seconds() < 1 || result.Seconds() > 5 {
		t.Errorf("got %+v", result)
	}
	if _, err := h.Finish(""); !errors.Is(err, handover.ErrNone) {
		t.Errorf("done after the timeout: %v", err)
	}
}

// TestHandovers_EndByManyCallers has many callers end one handover: one of them does.
func TestHandovers_EndByManyCallers(t *testing.T) {
	h := handover.New()
	for range 100 {
		opened := begin(t, h, captcha)
		var callers sync.WaitGroup
		var mu sync.Mutex
		ended := 0
		for range 8 {
			callers.Go(func() {
				if _, err := h.Finish(""); err == nil {
					mu.Lock()
					ended++
					mu.Unlock()
				}
			})
		}
		callers.Wait()
		if _, ok := opened.Result(); !ok || ended != 1 {
			t.Fatalf("ended %d times", ended)
		}
	}
}

func TestHandovers_RefuseInvalidRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		request handover.Request
		fields  string
	}{
		"nothing":         {handover.Request{}, "reason timeoutSeconds"},
		"blank":           {handover.Request{Reason: " \n", Timeout: time.Minute}, "reason"},
		"long":            {handover.Request{Reason: strings.Repeat("é", 501), Timeout: time.Minute}, "reason"},
		"invalid text":    {handover.Request{Reason: "\xff", Timeout: time.Minute}, "reason"},
		"a long timeout":  {handover.Request{Reason: "x", Timeout: handover.Seconds(43201)}, "timeoutSeconds"},
		"a huge timeout":  {handover.Request{Reason: "x", Timeout: handover.Seconds(1 << 62)}, "timeoutSeconds"},
		"a past timeout":  {handover.Request{Reason: "x", Timeout: handover.Seconds(-5)}, "timeoutSeconds"},
		"the longest one": {handover.Request{Reason: strings.Repeat("é", 500), Timeout: handover.Seconds(43200)}, ""},
	} {
		var fields []string
		if err := tc.request.Check(); err != nil {
			for _, d := range fault.From(err).Details {
				fields = append(fields, d.Field)
			}
		}
		if got := strings.Join(fields, " "); got != tc.fields {
			t.Errorf("%s: got details about %q, want %q", name, got, tc.fields)
		}
	}
}

func TestHandovers_NilHasNone(t *testing.T) {
	var none *handover.Handovers
	last, changed := none.Last()
	if none.Held() != nil || none.Open() != nil || last != nil || changed != nil {
		t.Error("nil has a handover")
	}
	if _, err := none.Begin(captcha); err == nil {
		t.Error("nil begins a handover")
	}
}
