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
	maxUndecided      = 64               // of which the cloud is asked at once
	maxUndecidedEach  = 4                // the same, of one client
	maxWaiting        = 512              // for their turn
	maxWaitingEach    = 64               // the same, of one client
	maxHeldEach       = 16               // refusals of one client that are held back
	maxClients        = 10_000           // that are told apart
	maxAccepted       = 10_000           // keys that are remembered
	patience          = 10 * time.Second // for a turn
	keyAccepted       = 10 * time.Minute // for which a key is remembered
	failuresForgotten = time.Minute      // after the last one
	firstDelay        = 50 * time.Millisecond
	lastDelay         = 5 * time.Second
)

var errTooManyCallers = &fault.Error{
	Kind: fault.Unavailable, Message: "Too many launches with keys that are not known here wait for the cloud's decision.", RetryAfter: time.Second,
}

// callers bounds the launches of organization keys that callers have brought,
// until the cloud has decided on them: anybody who reaches the worker can make
// keys up. Each client has a few turns to ask the cloud; others wait for theirs,
// in order. Refused keys are answered later and later. A key that the cloud has
// accepted a short time ago is asked for at once.
type callers struct {
	clock clock.Clock
	all   chan struct{} // holds one for each turn

	mu       sync.Mutex
	waiting  int
	clients  map[string]*caller
	accepted map[[sha256.Size]byte]time.Time // keys, by hash, until when
}

// caller is one client.
type caller struct {
	turns         chan struct{} // holds one for each turn
	users         int           // launches that refer to this client
	waiting, held int
	failures      int
	failedAt      time.Time
}

func newCallers(c clock.Clock) *callers {
	return &callers{
		clock: c, all: make(chan struct{}, maxUndecided), clients: map[string]*caller{}, accepted: map[[sha256.Size]byte]time.Time{},
	}
}

// ask asks the cloud by authorize, when it is the caller's turn. Errors: those of
// authorize, and Unavailable where too many wait.
func (c *callers) ask(ctx context.Context, request Request, authorize func() (Grant, error)) (Grant, error) {
	key := sha256.Sum256([]byte(request.OrganizationKey.Reveal()))
	if c.knows(key) {
		grant, err := authorize()
		c.learn(key, err)
		return grant, err
	}
	client := c.join(clientOf(request.Client))
	defer c.part(client)
	if err := c.wait(ctx, client); err != nil {
		return Grant{}, err
	}
	grant, err := authorize()
	c.learn(key, err)
	<-c.all
	if !keyRefused(err) {
		<-client.turns
		return grant, err
	}
	delay, hold := c.fail(client)
	c.sleep(ctx, firstDelay) // with the turn: the cloud is asked so often at most
	<-client.turns
	if hold {
		c.sleep(ctx, delay)
		c.mu.Lock()
		client.held--
		c.mu.Unlock()
	}
	return grant, err
}

// wait waits for a turn of the client's and one of all.
func (c *callers) wait(ctx context.Context, client *caller) error {
	c.mu.Lock()
	if c.waiting >= maxWaiting || client.waiting >= maxWaitingEach {
		c.mu.Unlock()
		return errTooManyCallers
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
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for i, turns := range []chan struct{}{client.turns, c.all} {
		var err error
		select {
		case turns <- struct{}{}:
			continue
		case <-limit.C:
			err = errTooManyCallers
		case <-ctx.Done():
			err = givenUp(ctx.Err())
		}
		if i > 0 {
			<-client.turns
		}
		return err
	}
	return nil
}

// join returns the client's entry, which is kept until part.
func (c *callers) join(name string) *caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.clients[name] == nil && len(c.clients) >= maxClients {
		c.forget(now)
	}
	if c.clients[name] == nil && len(c.clients) >= maxClients {
		name = "" // all others together
	}
	client := c.clients[name]
	if client == nil {
		client = &caller{turns: make(chan struct{}, maxUndecidedEach)}
		c.clients[name] = client
	}
	if now.Sub(client.failedAt) > failuresForgotten {
		client.failures = 0
	}
	client.users++
	return client
}

func (c *callers) part(client *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client.users--
}

// forget drops the clients of which nothing is to be remembered. The caller holds
// the lock.
func (c *callers) forget(now time.Time) {
	for name, client := range c.clients {
		if client.users == 0 && now.Sub(client.failedAt) > failuresForgotten {
			delete(c.clients, name)
		}
	}
}

// fail counts a refusal, and says how long its answer is held back, if it is.
func (c *callers) fail(client *caller) (delay time.Duration, hold bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client.failures++
	client.failedAt = c.clock.Now()
	if client.held >= maxHeldEach {
		return 0, false
	}
	client.held++
	return min(firstDelay<<min(client.failures-1, 10), lastDelay), true
}

func (*callers) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *callers) knows(key [sha256.Size]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, ok := c.accepted[key]
	return ok && c.clock.Now().Before(until)
}

// learn remembers what the cloud's answer says of a key.
func (c *callers) learn(key [sha256.Size]byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	switch {
	case keyRefused(err):
		delete(c.accepted, key)
		return
	case err != nil && !fault.Is(err, fault.PaymentRequired) && !fault.Is(err, fault.NotFound):
		return // it may not have looked at the key
	}
	if len(c.accepted) >= maxAccepted {
		for old, until := range c.accepted {
			if len(c.accepted) >= maxAccepted/2 || !now.Before(until) {
				delete(c.accepted, old)
			}
		}
	}
	c.accepted[key] = now.Add(keyAccepted)
}

// keyRefused reports whether the cloud has refused a key.
func keyRefused(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden)
}

// clientOf is what tells clients apart: an IPv4 address, or the network of an
// IPv6 one, of which a client has any number.
func clientOf(address string) string {
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
