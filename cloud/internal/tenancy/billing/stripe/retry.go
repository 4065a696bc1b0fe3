package stripe

import (
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// The timeouts of a call to Stripe and of each attempt.
const (
	callTime    = 25 * time.Second
	attemptTime = 10 * time.Second
	attempts    = 3
	firstPause  = 400 * time.Millisecond
)

// retryTransport repeats requests that did not reach Stripe or met a Stripe
// failure. Every modifying request has an idempotency key, so it takes effect
// once. (stripe-go does not repeat requests after a failure with a body.)
type retryTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p retryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		res, err := p.next.RoundTrip(r)
		if attempt == attempts || !isRetryable(res, err) || r.Body != nil && r.GetBody == nil {
			return res, err
		}
		if res != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
			_ = res.Body.Close()
		}
		pause := firstPause << (attempt - 1)
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(pause + rand.N(pause/2)):
		}
		r = r.Clone(r.Context())
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// isRetryable reports whether the same request may succeed later. Stripe's own
// hint takes precedence.
func isRetryable(res *http.Response, err error) bool {
	if err != nil {
		return true
	}
	if advice := res.Header.Get("Stripe-Should-Retry"); advice != "" {
		return advice == "true"
	}
	return res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusConflict
}
