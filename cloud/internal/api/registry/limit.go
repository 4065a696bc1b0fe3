package registry

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A client may send failureBurst invalid keys, and then one per failureInterval.
const (
	failureBurst    = 30
	failureInterval = 2 * time.Second
	maxClients      = 10_000 // that are remembered at once
)

// failureLimiter counts the requests of each client with an invalid key.
type failureLimiter struct {
	mu      sync.Mutex
	clients map[netip.Prefix]*rate.Limiter
}

func newFailureLimiter() *failureLimiter {
	return &failureLimiter{clients: map[netip.Prefix]*rate.Limiter{}}
}

// wait returns how long the client must wait; 0 if it may send a request.
func (f *failureLimiter) wait(client netip.Prefix) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	limiter := f.clients[client]
	if limiter == nil {
		return 0
	}
	return time.Duration(max(0, 1-limiter.Tokens()) * float64(failureInterval))
}

// add counts a failure. When too many clients are remembered, those that have waited
// long enough are forgotten; if there is none, all.
func (f *failureLimiter) add(client netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	limiter := f.clients[client]
	if limiter == nil {
		if len(f.clients) >= maxClients {
			f.forget()
		}
		limiter = rate.NewLimiter(rate.Every(failureInterval), failureBurst)
		f.clients[client] = limiter
	}
	limiter.Allow()
}

func (f *failureLimiter) forget() {
	for client, limiter := range f.clients {
		if limiter.Tokens() >= failureBurst {
			delete(f.clients, client)
		}
	}
	if len(f.clients) >= maxClients {
		clear(f.clients)
	}
}
