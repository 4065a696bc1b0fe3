package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// denials of one Forwarder. The first is logged as a warning.
type denials struct {
	count atomic.Int64
	once  sync.Once
}

// Denied returns how many requests the Wall has denied so far.
func (f *Forwarder) Denied() int64 { return f.denied.count.Load() }

func (f *Forwarder) deny(w http.ResponseWriter, host string) {
	f.denied.count.Add(1)
	f.denied.once.Do(func() { f.log.Warn("a browser asked for a host that is denied", "host", host) })
	http.Error(w, host+" is denied: the policy of this worker (DENIED_HOSTS, ALLOWED_HOSTS) keeps browsers from it.", http.StatusForbidden)
}
