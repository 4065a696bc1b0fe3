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

// Denied returns how many requests the Policy has denied so far.
func (f *Forwarder) Denied() int64 { return f.denied.count.Load() }

func (f *Forwarder) deny(w http.ResponseWriter, host string) {
	f.denied.count.Add(1)
	f.denied.once.Do(func() { f.log.Warn("the policy denies a browser's destination", "host", host) })
	http.Error(w, "This worker lets no browser reach that host.", http.StatusForbidden)
}
