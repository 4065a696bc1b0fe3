package launch

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// Bounds of launches whose organization key the cloud has not accepted yet.
const (
	maxPending          = 64               // of which the cloud is asked at once
	maxPendingPerClient = 4                // the same, of one client
	maxWaiting          = 512              // for their turn
	maxWaitingPerClient = 64               // the same, of one client
	maxDelayedPerClient = 16               // refusals of one client that are held back
	maxClients          = 10_000           // that are told apart
	maxAcceptedKeys     = 10_000           // keys that are remembered
	slotTimeout         = 10 * time.Second // for a turn
	acceptedKeyTTL      = 10 * time.Minute // for which a key is remembered
	failureWindow       = time.Minute      // after the last one
	minRefusalDelay     = 50 * time.Millisecond
	maxRefusalDelay     = 5 * time.Second
)

var errTooManyPending = &fault.Error{
	Kind: fault.Unavailable, Message: "Too many launches with keys that are not known here wait for the cloud's decision.", RetryAfter: time.Second,
}

// keyLimiter bounds the launches of organization keys that callers have brought,
// until the cloud has decided on them: anybody who reaches the worker can make
// keys up. Each client has a few turns to ask the cloud; others wait for theirs,
// in order. Refused keys are answered later and later. A key that the cloud has
// accepted a short time ago is asked for at once.
type keyLimiter struct {
	clock clock.Clock
	slots chan struct{} // holds one for each turn

	mu       sync.Mutex
	waiting  int
	clients  map[string]*clientState
	accepted map[[sha256.Size]byte]time.Time // keys, by hash, until when
}

// clientState is one client.
type clientState struct {
	slots            chan struct{} // holds one for each turn
	refs             int           // launches that refer to this client
	waiting, delayed int
	failures         int
	failedAt         time.Time
}

func newKeyLimiter(c clock.Clock) *keyLimiter {
	return &keyLimiter{
		clock: c, slots: make(chan struct{}, maxPending), clients: map[string]*clientState{}, accepted: map[[sha256.Size]byte]time.Time{},
	}
}

// requestSlot asks the cloud by authorize, when it is the caller's turn. Errors: those of
// authorize, and Unavailable where too many wait.
func (c *keyLimiter) authorize(ctx context.Context, request Request, authorize func() (Grant, error)) (Grant, error) {
	key := sha256.Sum256([]byte(request.OrganizationKey.Reveal()))
	if c.isAccepted(key) {
		grant, err := authorize()
		c.recordAnswer(key, err)
		return grant, err
	}
	client := c.acquireClient(clientID(request.Client))
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
	delay, hold := c.recordRefusal(client)
	c.sleep(ctx, minRefusalDelay) // with the turn: the cloud is asked so often at most
	<-client.slots
	if hold {
		c.sleep(ctx, delay)
		c.mu.Lock()
		client.delayed--
		c.mu.Unlock()
	}
	return grant, err
}

// acquireSlots waits for a turn of the client's and one of all.
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
	for i, turns := range []chan struct{}{client.slots, c.slots} {
		var err error
		select {
		case turns <- struct{}{}:
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

// acquireClient returns the client's entry, which is kept until part.
func (c *keyLimiter) acquireClient(name string) *clientState {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.clients[name] == nil && len(c.clients) >= maxClients {
		c.evictClients(now)
	}
	if c.clients[name] == nil && len(c.clients) >= maxClients {
		name = "" // slots others together
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

// evictClients drops the clients of which nothing is to be remembered. The caller holds
// the lock.
func (c *keyLimiter) evictClients(now time.Time) {
	for name, client := range c.clients {
		if client.refs == 0 && now.Sub(client.failedAt) > failureWindow {
			delete(c.clients, name)
		}
	}
}

// recordRefusal counts a refusal, and says how long its answer is held back, if it is.
func (c *keyLimiter) recordRefusal(client *clientState) (delay time.Duration, hold bool) {
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

// recordAnswer remembers what the cloud's answer says of a key.
func (c *keyLimiter) recordAnswer(key [sha256.Size]byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	switch {
	case isKeyRefused(err):
		delete(c.accepted, key)
		return
	case err != nil && !fault.Is(err, fault.PaymentRequired) && !fault.Is(err, fault.NotFound):
		return // it may not have looked at the key
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

// clientID is what tells clients apart: an IPv4 address, or the network of an
// IPv6 one, of which a client has any number.
func clientID(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	network, err := a.Prefix(64)
	if err != nil {
		return address
	}
	return network.String()
}
