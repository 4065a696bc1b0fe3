package handover_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

const asks = "the rule navigate.ask: a.test of the launch"

func TestAsk_EndsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(*handover.Handovers, *handover.Question)
		want    handover.Decision
		allowed bool
	}{
		"once":     {func(h *handover.Handovers, q *handover.Question) { _, _ = h.Answer(q.ID, handover.AllowOnce) }, handover.AllowOnce, true},
		"session":  {func(h *handover.Handovers, q *handover.Question) { _, _ = h.Answer(q.ID, handover.AllowForSession) }, handover.AllowForSession, true},
		"refuse":   {func(h *handover.Handovers, q *handover.Question) { _, _ = h.Answer(q.ID, handover.Refuse) }, handover.Refuse, false},
		"withdraw": {func(_ *handover.Handovers, q *handover.Question) { q.Withdraw() }, handover.Withdrawn, false},
		"end":      {func(h *handover.Handovers, _ *handover.Question) { h.Close() }, handover.Withdrawn, false},
		"another": {func(h *handover.Handovers, _ *handover.Question) {
			_, _ = h.Ask("f", "https://b.test/", asks, time.Hour)
		}, handover.Withdrawn, false},
	} {
		h := handover.New()
		var observed []handover.Decision
		h.ObserveQuestions(func(*handover.Question) func(handover.Decision) {
			return func(d handover.Decision) { observed = append(observed, d) }
		})
		_, changed := h.Last()
		q, err := h.Ask("f", "https://user:password@a.test/"+strings.Repeat("x", 3000), asks, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		<-changed
		if open := h.Questions(); len(open) != 1 || open[0] != q || q.Origin != "https://a.test" || strings.Contains(q.URL, "password") || len([]rune(q.URL)) != 2048 || q.Allowed() {
			t.Errorf("%s: open %+v", name, q)
		}
		if h.Held() != nil {
			t.Errorf("%s: the messages of clients are held", name)
		}
		c.end(h, q)
		<-q.Ended()
		c.end(h, q)
		q.Withdraw()
		if _, err := h.Answer(q.ID, handover.AllowOnce); !errors.Is(err, handover.ErrNoQuestion) {
			t.Errorf("%s: answered again: %v", name, err)
		}
		if q.Allowed() != c.allowed || observed[0] != c.want || name != "another" && len(observed) != 1 {
			t.Errorf("%s: allowed %t, observed %v", name, q.Allowed(), observed)
		}
	}
}

func TestAsk_RemembersSession(t *testing.T) {
	h := handover.New()
	ask := func(frame, address, rule string) *handover.Question {
		t.Helper()
		q, err := h.Ask(frame, address, rule, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	first, other, elsewhere := ask("1", "https://a.test/x", asks), ask("2", "https://a.test/y", asks), ask("3", "https://a.test:444/", asks)
	if _, err := h.Answer(first.ID, handover.AllowForSession); err != nil || !other.Allowed() || elsewhere.Allowed() {
		t.Errorf("answered: %v, other %t, elsewhere %t", err, other.Allowed(), elsewhere.Allowed())
	}
	if q := ask("4", "https://a.test/z", asks); !q.Allowed() {
		t.Error("asked again about the origin")
	}
	if q := ask("4", "https://a.test/z", "the rule navigate.ask: a.test/z of the profile"); q.Allowed() {
		t.Error("another rule is not asked about")
	}
	if q := ask("4", "http://a.test/z", asks); q.Allowed() {
		t.Error("another origin is not asked about")
	}
}

func TestAsk_RefusesAtTimeoutAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handover.New()
		var open []*handover.Question
		for i := range 16 {
			q, err := h.Ask(string(rune('a'+i)), "https://a.test/", asks, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, q)
		}
		if _, err := h.Ask("z", "https://a.test/", asks, time.Minute); !errors.Is(err, handover.ErrManyQuestions) {
			t.Errorf("one more: %v", err)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if n := len(h.Questions()); n != 16 {
			t.Errorf("%d are open before the timeout", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		for _, q := range open {
			if <-q.Ended(); q.Allowed() {
				t.Error("allowed at the timeout")
			}
		}
		h.Close()
		if _, err := h.Ask("a", "https://a.test/", asks, time.Minute); !errors.Is(err, handover.ErrEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}
