package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook/sender"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
)

func TestDelivery_IsSignedByStandardWebhooks(t *testing.T) {
	f, r := newFixture(t), newReceiver(t)
	e, first := f.endpoint(r.URL)
	session := f.startSession(f.org)
	f.run()
	d := f.waitFor(e.ID, Delivered)
	got := r.all()[0]
	if !verifies(t, got, first) || verifies(t, got, newSecret()) {
		t.Error("the signature is wrong")
	}
	if d.Attempts != 1 || d.LastStatus == nil || *d.LastStatus != 200 || d.LastError != nil || d.NextAttemptAt != nil || got.header.Get("Webhook-Id") != d.EventID.String() {
		t.Errorf("got %+v", d)
	}
	if got.event.ID != d.EventID || got.event.OrganizationID != f.org || got.event.Type != "session.started" || got.event.Data["sessionId"] != session.String() {
		t.Errorf("got %+v", got.event)
	}

	_, second, err := f.RotateSecret(t.Context(), f.org, e.ID)
	f.must(err)
	f.endSession(session)
	testenv.Eventually(t, "the events are received", func() bool { return len(r.all()) == 2 })
	if got := r.all()[1]; !verifies(t, got, first) || !verifies(t, got, second) {
		t.Error("after a rotation, both secrets must verify")
	}
	f.exec(`UPDATE webhook_endpoints SET old_secret_until = now()`)
	_, err = f.SendTest(t.Context(), f.org, e.ID)
	f.must(err)
	testenv.Eventually(t, "the events are received", func() bool { return len(r.all()) == 3 })
	if got := r.all()[2]; verifies(t, got, first) || !verifies(t, got, second) || got.event.Type != TestType || got.event.Data["endpointId"] != e.ID.String() {
		t.Errorf("the old secret must not verify after 24 hours; got %+v", got.event)
	}
}

func TestDelivery_SendsOnlySelectedTypes(t *testing.T) {
	f, r := newFixture(t), newReceiver(t)
	types := []string{"session.ended", "key.revoked"}
	_, _, err := f.Create(t.Context(), f.org, Fields{URL: r.URL, Types: &types, Enabled: true})
	f.must(err)
	f.changes(f.org)
	f.run()
	testenv.Eventually(t, "the events are received", func() bool { return len(r.all()) == 2 })
	got := []string{r.all()[0].event.Type, r.all()[1].event.Type}
	if slices.Sort(got); !slices.Equal(got, []string{"key.revoked", "session.ended"}) {
		t.Errorf("got %v", got)
	}
}

// TestDelivery_WaitsForEarlierEventsOfTheSession: the start of a session is refused twice.
// Its end is sent after it, and events of other sessions do not wait.
func TestDelivery_WaitsForEarlierEventsOfTheSession(t *testing.T) {
	f, r := newFixture(t), newReceiver(t)
	e, _ := f.endpoint(r.URL)
	session, other := f.startSession(f.org), f.startSession(f.org)
	f.endSession(session)
	f.endSession(other)
	var refusals atomic.Int64
	r.setAnswer(func(w http.ResponseWriter, _ *http.Request, e body) {
		if e.Data["sessionId"] == session.String() && e.Type == "session.started" && refusals.Add(1) <= 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	f.run()
	testenv.Eventually(t, "the deliveries have their states", func() bool {
		all := f.deliveries(e.ID)
		return len(all) == 4 && !slices.ContainsFunc(all, func(d Delivery) bool { return d.State != Delivered })
	})
	var got []string
	for _, each := range r.all() {
		if each.event.Data["sessionId"] == session.String() {
			got = append(got, each.event.Type)
		}
	}
	if !slices.Equal(got, []string{"session.started", "session.started", "session.started", "session.ended"}) {
		t.Errorf("got %v", got)
	}
}

func TestDelivery_FailsAfterTheLastAttempt(t *testing.T) {
	f, r := newFixture(t), newReceiver(t)
	f.Options.Backoff = time.Nanosecond
	r.setAnswer(status(http.StatusServiceUnavailable))
	e, _ := f.endpoint(r.URL)
	f.endSession(f.startSession(f.org))
	f.run()
	testenv.Eventually(t, "the deliveries have their states", func() bool {
		all := f.deliveries(e.ID)
		return len(all) == 2 && all[0].State == Failed && all[1].State == Failed
	})
	d := f.deliveries(e.ID)[0]
	if d.Attempts != maxAttempts || *d.LastStatus != 503 || *d.LastError != "the response has status 503" || len(r.all()) != 2*maxAttempts {
		t.Errorf("got %+v after %d requests", d, len(r.all()))
	}
	if found, err := f.Get(t.Context(), f.org, e.ID); err != nil || found.FailingSince == nil || !found.Enabled {
		t.Errorf("got %+v, %v", found, err)
	}
	r.setAnswer(nil)
	again, err := f.Resend(t.Context(), f.org, e.ID, d.ID)
	f.must(err)
	if again.State != Pending || again.Attempts != 0 {
		t.Errorf("got %+v", again)
	}
	testenv.Eventually(t, "the endpoint works", func() bool { // its state is recorded after that of the delivery
		found, err := f.Get(t.Context(), f.org, e.ID)
		return err == nil && found.FailingSince == nil && f.deliveries(e.ID)[0].State == Delivered
	})
}

func TestPause_GrowsToMoreThanADay(t *testing.T) {
	total := time.Duration(0)
	for n := 1; n < maxAttempts; n++ {
		total += Options{}.pause(n)
	}
	if first := (Options{}).pause(1); first != 10*time.Second || total < 24*time.Hour || total > 30*time.Hour {
		t.Errorf("the first pause is %v, all are %v", first, total)
	}
}

func TestEndpoint_IsDisabled(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		since  string
		reason string
	}{
		"when it is gone":          {http.StatusGone, "NULL", "gone"},
		"after days of failures":   {http.StatusNotFound, "now() - interval '121 hours'", "failing"},
		"not after hours of these": {http.StatusNotFound, "now() - interval '119 hours'", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, r := newFixture(t), newReceiver(t)
			r.setAnswer(status(test.status))
			e, _ := f.endpoint(r.URL)
			f.exec(`UPDATE webhook_endpoints SET failing_since = ` + test.since)
			session := f.startSession(f.org)
			f.run()
			testenv.Eventually(t, "the deliveries have their states", func() bool {
				return f.text(`SELECT (paused_until > '-infinity')::text FROM webhook_endpoints`) == "true"
			})
			found, err := f.Get(t.Context(), f.org, e.ID)
			f.must(err)
			if reason := valueOf(found.DisabledReason); reason != test.reason || found.Enabled != (test.reason == "") || found.FailingSince == nil {
				t.Fatalf("got %+v with the reason %q", found, reason)
			}
			if found.Enabled {
				return
			}
			_, err = f.SendTest(t.Context(), f.org, e.ID)
			assertFault(t, err, fault.Conflict)
			_, err = f.Resend(t.Context(), f.org, e.ID, f.deliveries(e.ID)[0].ID)
			assertFault(t, err, fault.Conflict)
			r.setAnswer(nil)
			enabled, err := f.Update(t.Context(), f.org, e.ID, json.RawMessage(`{"enabled": true}`))
			f.must(err)
			if enabled.DisabledReason != nil || enabled.FailingSince != nil {
				t.Errorf("got %+v", enabled)
			}
			f.endSession(session) // before, no event was queued
			testenv.Eventually(t, "the deliveries have their states", func() bool {
				all := f.deliveries(e.ID)
				return len(all) == 2 && all[0].State == Delivered && all[1].State == Delivered
			})
		})
	}
}

func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// TestSend_LimitsTheReceiver: a receiver can neither redirect a request, nor hold it, nor
// make the service read much.
func TestSend_LimitsTheReceiver(t *testing.T) {
	f, r, other := newFixture(t), newReceiver(t), newReceiver(t)
	f.Options.Timeout = 300 * time.Millisecond
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	e, _ := f.endpoint(r.URL)
	var stored row
	f.must(f.System.GetContext(t.Context(), &stored, `SELECT `+columns+` FROM webhook_endpoints WHERE id = $1`, e.ID))
	destination, err := f.newTarget(stored)
	f.must(err)
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, e body)
		status int
		want   string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request, _ body) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, 307, "the response has status 307"},
		"hang": {func(_ http.ResponseWriter, r *http.Request, _ body) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, 0, "no response in time"},
		"endless body": {func(w http.ResponseWriter, r *http.Request, _ body) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
					return
				}
			}
		}, 200, ""},
		"cut off": {func(http.ResponseWriter, *http.Request, body) { panic(http.ErrAbortHandler) }, 0, "EOF"},
	} {
		r.setAnswer(test.answer)
		got := f.send(t.Context(), destination, Event{ID: uuid.New(), Data: []byte(`{}`)})
		if text := errorText(got.err); got.status != test.status || text != test.want {
			t.Errorf("%s: got status %d and %q", name, got.status, text)
		}
	}
	if len(other.all()) > 0 {
		t.Error("a redirect was followed")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestSend_ChecksResolvedAddresses: the check is made when the address is dialed, so a
// name that resolves to a local address is refused too.
func TestSend_ChecksResolvedAddresses(t *testing.T) {
	f, r := newFixture(t), newReceiver(t)
	f.Sender = sender.New([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	f.endpoint(r.URL)
	e, _ := f.endpoint(strings.Replace(r.URL, "127.0.0.1", "localhost", 1))
	f.startSession(f.org)
	f.run()
	testenv.Eventually(t, "the deliveries have their states", func() bool {
		all := f.deliveries(e.ID)
		return len(all) == 1 && all[0].Attempts > 0 && strings.HasSuffix(valueOf(all[0].LastError), "of the host is not public")
	})
	if len(r.all()) > 0 {
		t.Error("a local address was reached")
	}
}

// TestDelivery_KeepsTheStateOfANewURL: the URL is changed while the old one refuses all
// events for ever.
func TestDelivery_KeepsTheStateOfANewURL(t *testing.T) {
	f, r, other := newFixture(t), newReceiver(t), newReceiver(t)
	e, _ := f.endpoint(r.URL)
	r.setAnswer(func(w http.ResponseWriter, _ *http.Request, _ body) {
		_, err := f.Update(t.Context(), f.org, e.ID, json.RawMessage(`{"url": "`+other.URL+`"}`))
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusGone)
	})
	f.startSession(f.org)
	f.run()
	f.waitFor(e.ID, Delivered)
	if found, err := f.Get(t.Context(), f.org, e.ID); err != nil || !found.Enabled || found.FailingSince != nil || len(other.all()) != 1 {
		t.Errorf("got %+v, %v, %d requests", found, err, len(other.all()))
	}
}

// TestPublish_SkipsAnEndpointThatIsBeingDeleted: the events of all organizations are
// published by one statement.
func TestPublish_SkipsAnEndpointThatIsBeingDeleted(t *testing.T) {
	f := newFixture(t)
	removed, _ := f.endpoint("https://hooks.example.com/removed")
	kept, _ := f.endpoint("https://hooks.example.com/kept")
	f.startSession(f.org)
	tx, err := f.System.BeginTxx(t.Context(), nil)
	f.must(err)
	_, err = tx.ExecContext(t.Context(), `DELETE FROM webhook_endpoints WHERE id = $1`, removed.ID)
	f.must(err)
	published := make(chan error, 1)
	go func() {
		n, err := f.publish(t.Context())
		if n != 1 && err == nil {
			err = fmt.Errorf("published %d events", n)
		}
		published <- err
	}()
	testenv.Eventually(t, "the publisher waits", func() bool {
		return f.text(`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0)::text`) == "true"
	})
	f.must(tx.Commit())
	f.must(<-published)
	if n := len(f.deliveries(kept.ID)); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

func TestPublish_DoesNotWaitForAChangeOfAnEndpoint(t *testing.T) {
	f := newFixture(t)
	e, _ := f.endpoint("https://hooks.example.com")
	f.startSession(f.org)
	_, err := f.change(t.Context(), f.org, e.ID, func(*sqlx.Tx, *row) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := f.publish(ctx)
		return err
	})
	f.must(err)
	if n := len(f.deliveries(e.ID)); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}
