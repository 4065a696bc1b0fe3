package idempotency_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/cloud/internal/platform/idempotency"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

func newStore(t *testing.T) *idempotency.Store {
	t.Helper()
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	return &idempotency.Store{DB: dbtest.Open(t, dbtest.NewDSN(t), pg.Options{Role: pg.AppRole}), Sealer: box}
}

func request(scope, key, body string) idempotency.Request {
	return idempotency.Request{Scope: scope, Key: key, Fingerprint: sha256.Sum256([]byte(body))}
}

var first = request("user ada", "k", "body")

func answer(body string) idempotency.Answer {
	return idempotency.Answer{Status: 201, Header: map[string][]string{"Location": {"/v1/x"}}, Body: []byte(body)}
}

// mustClaim claims a key or fails the test.
func mustClaim(t *testing.T, s *idempotency.Store, r idempotency.Request) *idempotency.Claim {
	t.Helper()
	got, kept, err := s.Begin(t.Context(), r)
	if err != nil || got == nil || kept != nil {
		t.Fatalf("claim: %v, answer %v, %v", got, kept, err)
	}
	return got
}

// mustBeRefused fails unless the key is refused, and returns the conflict.
func mustBeRefused(t *testing.T, s *idempotency.Store, r idempotency.Request) *fault.Error {
	t.Helper()
	got, kept, err := s.Begin(t.Context(), r)
	if got != nil || kept != nil || !fault.Is(err, fault.Conflict) {
		t.Fatalf("claim %v, answer %v, %v; want a conflict", got, kept, err)
	}
	return fault.From(err)
}

// mustBeReplayed fails unless there is an answer.
func mustBeReplayed(t *testing.T, s *idempotency.Store, r idempotency.Request) idempotency.Answer {
	t.Helper()
	got, kept, err := s.Begin(t.Context(), r)
	if got != nil || kept == nil || err != nil {
		t.Fatalf("claim %v, answer %v, %v; want the answer", got, kept, err)
	}
	return *kept
}

func mustComplete(t *testing.T, s *idempotency.Store, c *idempotency.Claim, a idempotency.Answer) {
	t.Helper()
	if err := s.Complete(t.Context(), c, a); err != nil {
		t.Fatal(err)
	}
}

// age makes all keys older.
func age(s *idempotency.Store, by time.Duration) {
	s.DB.MustExec(`UPDATE idempotency_keys SET lease_until = lease_until - make_interval(secs => $1),
		expires_at = expires_at - make_interval(secs => $1)`, by.Seconds())
}

func TestBegin_ReturnsFirstAnswer(t *testing.T) {
	s := newStore(t)
	mustComplete(t, s, mustClaim(t, s, first), answer("one"))
	for range 2 {
		if diff := cmp.Diff(answer("one"), mustBeReplayed(t, s, first)); diff != "" {
			t.Errorf("the answer (-want +got):\n%s", diff)
		}
	}
}

func TestBegin_OtherRequestWithSameKeyIsConflict(t *testing.T) {
	s := newStore(t)
	c := mustClaim(t, s, first)
	if conflict := mustBeRefused(t, s, request("user ada", "k", "other")); conflict.RetryAfter != 0 {
		t.Errorf("unexpected retry: %+v", conflict)
	}
	mustComplete(t, s, c, answer("one"))
	mustBeRefused(t, s, request("user ada", "k", "other"))
}

func TestBegin_RunningRequestIsConflictWithRetryAfter(t *testing.T) {
	s := newStore(t)
	c := mustClaim(t, s, first)
	if conflict := mustBeRefused(t, s, first); conflict.RetryAfter < time.Second || conflict.RetryAfter > 5*time.Second {
		t.Errorf("retry after %v", conflict.RetryAfter)
	}
	if err := s.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, s, first)
}

func TestBegin_KeyIsScoped(t *testing.T) {
	s := newStore(t)
	mustComplete(t, s, mustClaim(t, s, first), answer("one"))
	for _, other := range []idempotency.Request{
		request("user eve", "k", "body"), request("user ada", "k2", "body"), request("user ad", "ak", "body"), request("", "user adak", "body"),
	} {
		mustClaim(t, s, other)
	}
}

func TestBegin_TakesOverExpiredClaim(t *testing.T) {
	s := newStore(t)
	dead := mustClaim(t, s, first)
	age(s, idempotency.Lease-5*time.Second)
	mustBeRefused(t, s, first)
	age(s, 5*time.Second)
	alive := mustClaim(t, s, first)
	mustComplete(t, s, dead, answer("late")) // it was slow, not dead
	if err := s.Release(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	mustBeRefused(t, s, first)
	mustComplete(t, s, alive, answer("second"))
	mustComplete(t, s, dead, answer("later still"))
	if got := string(mustBeReplayed(t, s, first).Body); got != "second" {
		t.Errorf("the answer is %q, want that of the valid claim", got)
	}
}

func TestBegin_AnswerExpiresAfterDay(t *testing.T) {
	s := newStore(t)
	mustComplete(t, s, mustClaim(t, s, first), answer("one"))
	age(s, idempotency.Retention-time.Minute)
	mustBeReplayed(t, s, first)
	age(s, time.Minute)
	c := mustClaim(t, s, request("user ada", "k", "other"))
	mustComplete(t, s, c, answer("two"))
	if got := string(mustBeReplayed(t, s, request("user ada", "k", "other")).Body); got != "two" {
		t.Errorf("the answer is %q, want the new one", got)
	}
}

func TestBegin_OneOfManyClaimsKey(t *testing.T) {
	s := newStore(t)
	for range 5 {
		s.DB.MustExec(`DELETE FROM idempotency_keys`)
		var claimed, refused atomic.Int64
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				got, _, err := s.Begin(context.Background(), first)
				switch {
				case got != nil:
					claimed.Add(1)
				case fault.Is(err, fault.Conflict):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if claimed.Load() != 1 || refused.Load() != 31 {
			t.Fatalf("%d claimed the key and %d were refused", claimed.Load(), refused.Load())
		}
	}
}

func TestStore_EncryptsKeysAndAnswers(t *testing.T) {
	s := newStore(t)
	r := request("user zoltan", "my-own-key", "body")
	mustComplete(t, s, mustClaim(t, s, r), answer("svc_k3fdmz5w2v6x4y7a3b5c7d2e4f6gq7ta"))
	var dump string // mostly hexadecimal, so the words can't occur by chance
	err := s.DB.Get(&dump, `SELECT string_agg(k::text || encode(id, 'escape') || encode(answer, 'escape'), '') FROM idempotency_keys k`)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"svc_k3fd", "my-own-key", "zoltan", "/v1/x"} {
		if strings.Contains(dump, word) {
			t.Errorf("the database contains %q in plain text", word)
		}
	}
	// An answer can be decrypted only with its own key.
	mustComplete(t, s, mustClaim(t, s, first), answer("one"))
	s.DB.MustExec(`UPDATE idempotency_keys k SET answer = o.answer FROM idempotency_keys o WHERE o.id <> k.id`)
	if _, kept, err := s.Begin(t.Context(), first); err == nil {
		t.Errorf("got the answer of another key: %v", kept)
	}
}

func TestStorable(t *testing.T) {
	for status, want := range map[int]bool{200: true, 201: true, 302: true, 400: false, 402: false, 403: false, 404: false,
		409: false, 429: false, 499: false, 500: false, 502: false, 503: false} {
		if idempotency.Storable(status) != want {
			t.Errorf("status %d: storable %v, want %v", status, !want, want)
		}
	}
}
