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

	"github.com/browser-svc/svc/cloud/internal/idempotency"
	"github.com/browser-svc/svc/cloud/internal/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

func open(t *testing.T) *idempotency.Store {
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

// claim claims a key and must get it.
func claim(t *testing.T, s *idempotency.Store, r idempotency.Request) *idempotency.Claim {
	t.Helper()
	got, kept, err := s.Begin(t.Context(), r)
	if err != nil || got == nil || kept != nil {
		t.Fatalf("claim: %v, answer %v, %v", got, kept, err)
	}
	return got
}

// refused must not get the key; it returns the conflict.
func refused(t *testing.T, s *idempotency.Store, r idempotency.Request) *fault.Error {
	t.Helper()
	got, kept, err := s.Begin(t.Context(), r)
	if got != nil || kept != nil || !fault.Is(err, fault.Conflict) {
		t.Fatalf("claim %v, answer %v, %v; want a conflict", got, kept, err)
	}
	return fault.From(err)
}

// replayed must get an answer.
func replayed(t *testing.T, s *idempotency.Store, r idempotency.Request) idempotency.Answer {
	t.Helper()
	got, kept, err := s.Begin(t.Context(), r)
	if got != nil || kept == nil || err != nil {
		t.Fatalf("claim %v, answer %v, %v; want the answer", got, kept, err)
	}
	return *kept
}

func complete(t *testing.T, s *idempotency.Store, c *idempotency.Claim, a idempotency.Answer) {
	t.Helper()
	if err := s.Complete(t.Context(), c, a); err != nil {
		t.Fatal(err)
	}
}

// age lets time pass for every key.
func age(s *idempotency.Store, by time.Duration) {
	s.DB.MustExec(`UPDATE idempotency_keys SET lease_until = lease_until - make_interval(secs => $1),
		expires_at = expires_at - make_interval(secs => $1)`, by.Seconds())
}

func TestTheFirstAnswerIsGivenAgain(t *testing.T) {
	s := open(t)
	complete(t, s, claim(t, s, first), answer("one"))
	for range 2 {
		if diff := cmp.Diff(answer("one"), replayed(t, s, first)); diff != "" {
			t.Errorf("the answer (-want +got):\n%s", diff)
		}
	}
}

func TestAnotherRequestWithTheKeyIsAConflict(t *testing.T) {
	s := open(t)
	c := claim(t, s, first)
	if conflict := refused(t, s, request("user ada", "k", "other")); conflict.RetryAfter != 0 {
		t.Errorf("it is told to come again: %+v", conflict)
	}
	complete(t, s, c, answer("one"))
	refused(t, s, request("user ada", "k", "other"))
}

func TestARequestThatRunsIsAConflictThatPasses(t *testing.T) {
	s := open(t)
	c := claim(t, s, first)
	if conflict := refused(t, s, first); conflict.RetryAfter < time.Second || conflict.RetryAfter > 5*time.Second {
		t.Errorf("come again after %v", conflict.RetryAfter)
	}
	if err := s.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	claim(t, s, first)
}

func TestAKeyMeansNothingInAnotherScope(t *testing.T) {
	s := open(t)
	complete(t, s, claim(t, s, first), answer("one"))
	for _, other := range []idempotency.Request{
		request("user eve", "k", "body"), request("user ada", "k2", "body"), request("user ad", "ak", "body"), request("", "user adak", "body"),
	} {
		claim(t, s, other)
	}
}

func TestWhoDiedLeavesTheKeyAfterAMinute(t *testing.T) {
	s := open(t)
	dead := claim(t, s, first)
	age(s, idempotency.Lease-5*time.Second)
	refused(t, s, first)
	age(s, 5*time.Second)
	alive := claim(t, s, first)
	complete(t, s, dead, answer("late")) // it was only slow
	if err := s.Release(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	refused(t, s, first)
	complete(t, s, alive, answer("second"))
	complete(t, s, dead, answer("later still"))
	if got := string(replayed(t, s, first).Body); got != "second" {
		t.Errorf("the answer is %q, want that of the claim that held", got)
	}
}

func TestAnAnswerIsKeptForADay(t *testing.T) {
	s := open(t)
	complete(t, s, claim(t, s, first), answer("one"))
	age(s, idempotency.Kept-time.Minute)
	replayed(t, s, first)
	age(s, time.Minute)
	c := claim(t, s, request("user ada", "k", "other"))
	complete(t, s, c, answer("two"))
	if got := string(replayed(t, s, request("user ada", "k", "other")).Body); got != "two" {
		t.Errorf("the answer is %q, want the new one", got)
	}
}

func TestAnAnswerIsKeptForAsLongAsTheStoreSays(t *testing.T) {
	s := open(t)
	s.Kept = 2 * time.Hour
	complete(t, s, claim(t, s, first), answer("one"))
	age(s, 2*time.Hour-time.Minute)
	replayed(t, s, first)
	age(s, time.Minute)
	claim(t, s, first)
}

func TestOnlyOneOfManyClaimsAKey(t *testing.T) {
	s := open(t)
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

func TestNeitherKeysNorAnswersCanBeReadInTheDatabase(t *testing.T) {
	s := open(t)
	r := request("user zoltan", "my-own-key", "body")
	complete(t, s, claim(t, s, r), answer("svc_k3fdmz5w2v6x4y7a3b5c7d2e4f6gq7ta"))
	var dump string // hexadecimal, mostly: none of the words may be by chance
	err := s.DB.Get(&dump, `SELECT string_agg(k::text || encode(id, 'escape') || encode(answer, 'escape'), '') FROM idempotency_keys k`)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"svc_k3fd", "my-own-key", "zoltan", "/v1/x"} {
		if strings.Contains(dump, word) {
			t.Errorf("%q can be read in the database", word)
		}
	}
	// An answer opens only under its own key.
	complete(t, s, claim(t, s, first), answer("one"))
	s.DB.MustExec(`UPDATE idempotency_keys k SET answer = o.answer FROM idempotency_keys o WHERE o.id <> k.id`)
	if _, kept, err := s.Begin(t.Context(), first); err == nil {
		t.Errorf("the answer to another key was given: %v", kept)
	}
}

func TestWhatIsKept(t *testing.T) {
	for status, want := range map[int]bool{200: true, 201: true, 302: true, 400: false, 402: false, 403: false, 404: false,
		409: false, 429: false, 499: false, 500: false, 502: false, 503: false} {
		if idempotency.Keeps(status) != want {
			t.Errorf("an answer of %d: kept %v, want %v", status, !want, want)
		}
	}
}
