package admission

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/browser-svc/svc/shared/clientaddr"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Limits for requests with organization keys that the cloud has not accepted yet.
const (
	maxPending          = 64               // concurrent requests
	maxPendingPerClient = 4                // concurrent requests, per client
	maxWaiting          = 512              // callers, whose client may make a request, that wait for those of all clients
	maxWaitingPerClient = 64               // callers that wait for a request, per client
	maxClients          = 10_000           // clients with a state of their own
	maxAcceptedKeys     = 10_000           // remembered keys
	turnTimeout         = 10 * time.Second // wait for a request
	acceptedKeyTTL      = 10 * time.Minute
)

// Refusals of a client are answered at this rate, after the first ones. A refusal that had
// to wait longer than maxRefusalDelay is answered at once, because a delay takes memory.
const (
	minRefusalDelay = 50 * time.Millisecond // of each refusal; the client's next request waits
	freeRefusals    = 5
	refusalInterval = 2 * time.Second
	maxRefusalDelay = 30 * time.Second
)

// ErrTooManyPending means that too many callers with unverified keys are waiting.
var ErrTooManyPending = &fault.Error{
	Kind: fault.Unavailable, Message: "Too many launches with unverified keys are waiting. Retry later.", RetryAfter: time.Second,
}

// Keys limits requests to the cloud with organization keys of callers until the cloud has
// accepted the key: anyone who can reach the worker can make up keys. Each client may have a
// few requests at once; further ones wait in order. A key that the cloud has accepted
// recently is not limited. Keys are stored as hashes.
type Keys struct {
	clock   clock.Clock
	pending *semaphore.Weighted
	waiting *semaphore.Weighted

	mu       sync.Mutex
	clients  map[string]*client
	accepted map[[sha256.Size]byte]time.Time // by hash of the key; the value is the expiry
}

// client is the state of one client.
type client struct {
	pending, waiting *semaphore.Weighted
	refusals         *rate.Limiter
	users            int // callers that use this state
}

// NewKeys returns limits without clients.
func NewKeys(c clock.Clock) *Keys {
	return &Keys{
		clock: c, pending: semaphore.NewWeighted(maxPending), waiting: semaphore.NewWeighted(maxWaiting),
		clients: map[string]*client{}, accepted: map[[sha256.Size]byte]time.Time{},
	}
}

// Do calls request when the client may make one, and remembers from its error whether the
// cloud has accepted the key. Errors: those of request, and ErrTooManyPending.
func (k *Keys) Do(ctx context.Context, key session.OrganizationKey, address string, request func() error) error {
	if k.Accepted(key) {
		err := request()
		k.recordAnswer(key, err)
		return err
	}
	c := k.acquireClient(clientaddr.Key(address))
	defer k.releaseClient(c)
	if err := k.awaitTurn(ctx, c); err != nil {
		return err
	}
	err := request()
	k.recordAnswer(key, err)
	k.pending.Release(1)
	if IsKeyRefused(err) {
		sleep(ctx, minRefusalDelay)
	}
	c.pending.Release(1)
	if IsKeyRefused(err) {
		c.delayRefusal(ctx, k.clock.Now())
	}
	return err
}

// awaitTurn waits until the client may make a request, and then all clients together. Callers
// that wait for their own client take no place of other clients.
func (k *Keys) awaitTurn(ctx context.Context, c *client) error {
	if !c.waiting.TryAcquire(1) {
		return ErrTooManyPending
	}
	defer c.waiting.Release(1)
	limited, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	if c.pending.Acquire(limited, 1) == nil {
		if k.awaitTotal(limited) {
			return nil
		}
		c.pending.Release(1)
	}
	if ctx.Err() != nil {
		return Canceled(ctx.Err())
	}
	return ErrTooManyPending
}

// awaitTotal waits until one more request of all clients is allowed, and reports whether it is.
func (k *Keys) awaitTotal(ctx context.Context) bool {
	if !k.waiting.TryAcquire(1) {
		return false
	}
	defer k.waiting.Release(1)
	return k.pending.Acquire(ctx, 1) == nil
}

// acquireClient returns the state of a client, which is kept at least until releaseClient.
func (k *Keys) acquireClient(name string) *client {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clients[name] == nil && len(k.clients) >= maxClients {
		k.evictClients(k.clock.Now())
	}
	if k.clients[name] == nil && len(k.clients) >= maxClients {
		name = "" // shared by all further clients
	}
	c := k.clients[name]
	if c == nil {
		c = &client{
			pending: semaphore.NewWeighted(maxPendingPerClient), waiting: semaphore.NewWeighted(maxWaitingPerClient),
			refusals: rate.NewLimiter(rate.Every(refusalInterval), freeRefusals),
		}
		k.clients[name] = c
	}
	c.users++
	return c
}

func (k *Keys) releaseClient(c *client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.users--
}

// evictClients drops clients without callers and recent refusals. The caller holds the lock.
func (k *Keys) evictClients(now time.Time) {
	for name, c := range k.clients {
		if c.users == 0 && c.refusals.TokensAt(now) >= freeRefusals {
			delete(k.clients, name)
		}
	}
}

// delayRefusal waits as long as the rate of refusals requires.
func (c *client) delayRefusal(ctx context.Context, now time.Time) {
	refusal := c.refusals.ReserveN(now, 1)
	if delay := refusal.DelayFrom(now); delay <= maxRefusalDelay {
		sleep(ctx, delay)
		return
	}
	refusal.CancelAt(now)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Accepted reports whether the cloud has accepted a key recently.
func (k *Keys) Accepted(key session.OrganizationKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	expiry, ok := k.accepted[hash(key)]
	return ok && k.clock.Now().Before(expiry)
}

func hash(key session.OrganizationKey) [sha256.Size]byte { return sha256.Sum256([]byte(key.Reveal())) }

// recordAnswer remembers whether the cloud has accepted a key.
func (k *Keys) recordAnswer(key session.OrganizationKey, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	switch {
	case IsKeyRefused(err):
		delete(k.accepted, hash(key))
		return
	case err != nil && !fault.Is(err, fault.PaymentRequired) && !fault.Is(err, fault.NotFound):
		return // the cloud may not have checked the key
	}
	if len(k.accepted) >= maxAcceptedKeys {
		for other, expiry := range k.accepted {
			if len(k.accepted) >= maxAcceptedKeys/2 || !now.Before(expiry) {
				delete(k.accepted, other)
			}
		}
	}
	k.accepted[hash(key)] = now.Add(acceptedKeyTTL)
}

// IsKeyRefused reports whether the cloud has refused a key.
func IsKeyRefused(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden)
}
