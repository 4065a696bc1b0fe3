package launch

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/clientaddr"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// Limits for launches whose organization key the cloud has not accepted yet.
const (
	maxPending          = 64               // concurrent requests to the cloud
	maxPendingPerClient = 4                // concurrent requests to the cloud, per client
	maxWaiting          = 512              // launches that wait for a slot
	maxWaitingPerClient = 64               // launches that wait for a slot, per client
	maxDelayedPerClient = 16               // delayed refusals, per client
	maxClients          = 10_000           // clients with a state of their own
	maxAcceptedKeys     = 10_000           // remembered keys
	slotTimeout         = 10 * time.Second // wait for a slot
	acceptedKeyTTL      = 10 * time.Minute
	failureWindow       = time.Minute // refusals are forgotten this long after the last one
	minRefusalDelay     = 50 * time.Millisecond
	maxRefusalDelay     = 5 * time.Second
)

var errTooManyPending = &fault.Error{
	Kind: fault.Unavailable, Message: "Too many launches with unverified keys are waiting. Retry later.", RetryAfter: time.Second,
}

// keyLimiter limits launches with organization keys of callers until the cloud has
// accepted the key: anyone who can reach the worker can make up keys. Each client
// has a few slots for requests to the cloud; further launches wait in order.
// Refusals of a client are delayed more and more. A key that the cloud has accepted
// recently is not limited.
type keyLimiter struct {
	clock clock.Clock
	slots chan struct{} // a semaphore for all clients

	mu       sync.Mutex
	waiting  int
	clients  map[string]*clientState
	accepted map[[sha256.Size]byte]time.Time // by hash of the key; the value is the expiry
}

// clientState is the state of one client.
type clientState struct {
	slots            chan struct{} // a semaphore
	refs             int           // launches that use this entry
	waiting, delayed int
	failures         int
	failedAt         time.Time
}

func newKeyLimiter(c clock.Clock) *keyLimiter {
	return &keyLimiter{
		clock: c, slots: make(chan struct{}, maxPending), clients: map[string]*clientState{}, accepted: map[[sha256.Size]byte]time.Time{},
	}
}

// authorize calls authorize once the client has a slot. Errors: those of authorize,
// and Unavailable if too many launches are waiting.
func (c *keyLimiter) authorize(ctx context.Context, request Request, authorize func() (Grant, error)) (Grant, error) {
	key := sha256.Sum256([]byte(request.OrganizationKey.Reveal()))
	if c.isAccepted(key) {
		grant, err := authorize()
		c.recordAnswer(key, err)
		return grant, err
	}
	client := c.acquireClient(clientaddr.Key(request.Client))
	defer c.releaseClient(client)
	if err := c.acquireSlots(ctx, client); err != nil {
		return Grant{}, err
	}
	grant, err := authorize()
	c.recordAnswer(key, err)
	<-c.slots
	if !isKeyRefused(err) {
		<-client.slots
		return grant, err
	}
	delay, ok := c.recordRefusal(client)
	c.sleep(ctx, minRefusalDelay) // still holding the slot: this limits the request rate
	<-client.slots
	if ok {
		c.sleep(ctx, delay)
		c.mu.Lock()
		client.delayed--
		c.mu.Unlock()
	}
	return grant, err
}

// acquireSlots acquires a slot of the client and a global one.
func (c *keyLimiter) acquireSlots(ctx context.Context, client *clientState) error {
	c.mu.Lock()
	if c.waiting >= maxWaiting || client.waiting >= maxWaitingPerClient {
		c.mu.Unlock()
		return errTooManyPending
	}
	c.waiting++
	client.waiting++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waiting--
		client.waiting--
	}()
	limit := time.NewTimer(slotTimeout)
	defer limit.Stop()
	for i, slots := range []chan struct{}{client.slots, c.slots} {
		var err error
		select {
		case slots <- struct{}{}:
			continue
		case <-limit.C:
			err = errTooManyPending
		case <-ctx.Done():
			err = launchCanceled(ctx.Err())
		}
		if i > 0 {
			<-client.slots
		}
		return err
	}
	return nil
}

// acquireClient returns the state of a client, which is kept at least until
// releaseClient.
func (c *keyLimiter) acquireClient(name string) *clientState {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.clients[name] == nil && len(c.clients) >= maxClients {
		c.evictClients(now)
	}
	if c.clients[name] == nil && len(c.clients) >= maxClients {
		name = "" // shared by all further clients
	}
	client := c.clients[name]
	if client == nil {
		client = &clientState{slots: make(chan struct{}, maxPendingPerClient)}
		c.clients[name] = client
	}
	if now.Sub(client.failedAt) > failureWindow {
		client.failures = 0
	}
	client.refs++
	return client
}

func (c *keyLimiter) releaseClient(client *clientState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client.refs--
}

// evictClients drops clients without launches and recent refusals. The caller holds
// the lock.
func (c *keyLimiter) evictClients(now time.Time) {
	for name, client := range c.clients {
		if client.refs == 0 && now.Sub(client.failedAt) > failureWindow {
			delete(c.clients, name)
		}
	}
}

// recordRefusal counts a refusal. It returns how long to delay its answer, and false
// if it is not delayed.
func (c *keyLimiter) recordRefusal(client *clientState) (delay time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client.failures++
	client.failedAt = c.clock.Now()
	if client.delayed >= maxDelayedPerClient {
		return 0, false
	}
	client.delayed++
	return min(minRefusalDelay<<min(client.failures-1, 10), maxRefusalDelay), true
}

func (*keyLimiter) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *keyLimiter) isAccepted(key [sha256.Size]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, ok := c.accepted[key]
	return ok && c.clock.Now().Before(until)
}

// recordAnswer remembers whether the cloud has accepted a key.
func (c *keyLimiter) recordAnswer(key [sha256.Size]byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	switch {
	case isKeyRefused(err):
		delete(c.accepted, key)
		return
	case err != nil && !fault.Is(err, fault.PaymentRequired) && !fault.Is(err, fault.NotFound):
		return // the cloud may not have checked the key
	}
	if len(c.accepted) >= maxAcceptedKeys {
		for old, until := range c.accepted {
			if len(c.accepted) >= maxAcceptedKeys/2 || !now.Before(until) {
				delete(c.accepted, old)
			}
		}
	}
	c.accepted[key] = now.Add(acceptedKeyTTL)
}

// isKeyRefused reports whether the cloud has refused a key.
func isKeyRefused(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden)
}
