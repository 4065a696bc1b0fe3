package proxy

import (
	"net/http"
	"sync/atomic"

	"github.com/browser-svc/svc/shared/netrules"
)

// limits are the rules of a launch, as far as they concern its connections.
type limits struct {
	rules       atomic.Pointer[netrules.Policy] // nil without rules
	transferred atomic.Int64                    // bytes of the browser's connections, if they are limited
	exceeded    atomic.Bool
}

// SetRules sets the rules of the launch for new requests, also of ContextProxies.
func (f *Forwarder) SetRules(rules *netrules.Policy) { f.conns.limits.rules.Store(rules) }

// verdict decides about a connection to a host.
func (l *limits) verdict(host string, port uint16) netrules.Verdict {
	rules := l.rules.Load()
	if v := rules.Connect(host, port); v.Denied {
		return v
	}
	if l.exceeded.Load() {
		return rules.Bytes(l.transferred.Load())
	}
	return netrules.Verdict{}
}

// add counts bytes. It returns true when they exceed the limit for the first time.
func (l *limits) add(n int64) (exceeds bool) {
	rules := l.rules.Load()
	return rules.LimitsBytes() && rules.Bytes(l.transferred.Add(n)).Denied && !l.exceeded.Swap(true)
}

// deniedError is the denial by a rule of the launch. It is ErrDenied.
type deniedError struct{ netrules.Verdict }

func (e *deniedError) Error() string { return "denied by " + e.String() }

// Is implements the interface of errors.Is.
func (e *deniedError) Is(target error) bool { return target == ErrDenied }

// ruleError returns the error for a verdict, or nil.
func ruleError(v netrules.Verdict) error {
	if !v.Denied {
		return nil
	}
	return &deniedError{v}
}

// denyByRule answers a request that a rule of the launch denies, and counts it.
func (f *Forwarder) denyByRule(w http.ResponseWriter, host string, v netrules.Verdict) {
	f.denied.count.Add(1)
	f.policy.denied.byRule.Add(1)
	f.conns.usage.deny(host, v)
	f.log.Debug("request denied by rule", "host", host, "level", v.Level, "rule", v.Rule)
	http.Error(w, host+" is denied by "+v.String()+".", http.StatusForbidden)
}
