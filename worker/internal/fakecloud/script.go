package fakecloud

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
)

// Answer stands in for the cloud's own. One that writes nothing goes before it.
type Answer func(w http.ResponseWriter, r *http.Request)

// Script gives the next calls of an operation these answers, in order.
func (c *Cloud) Script(operation Operation, answers ...Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script[operation] = append(c.script[operation], answers...)
}

// Always gives every call of an operation this answer; nil is the cloud's own.
func (c *Cloud) Always(operation Operation, answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.always[operation] = answer
}

// AnswerForProfile gives every call of an operation that names this profile this answer;
// nil is the cloud's own. What Script says goes first.
func (c *Cloud) AnswerForProfile(profile uuid.UUID, operation Operation, answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.profileAnswers[profileOperation{operation, profile}] = answer
}

// profileOperation is what a call is about.
type profileOperation struct {
	operation Operation
	profile   uuid.UUID
}

// Raw answers with exactly this.
func Raw(status int, contentType, body string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// JSON answers with exactly this body.
func JSON(status int, body string) Answer { return Raw(status, "application/json", body) }

// Failure answers with the failure envelope of a kind.
func Failure(kind fault.Kind, message string, details ...fault.Detail) Answer {
	body, err := json.Marshal(map[string]any{
		"success": false,
		"error":   map[string]any{"code": kind.Code(), "message": message, "details": append([]fault.Detail{}, details...)},
	})
	if err != nil {
		panic(err) // a detail that is no JSON
	}
	return JSON(kind.Status(), string(body))
}

// Reset breaks the connection without a word.
func Reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // the cloud speaks HTTP/1.1
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Down makes the cloud break every connection, or answer again.
func (c *Cloud) Down(down bool) { c.set(func() { c.down = down }) }

// SetContractVersion makes every answer name this version of the contract; empty for none.
func (c *Cloud) SetContractVersion(contract string) { c.set(func() { c.contract = &contract }) }

// Revoke makes the organization key worthless, or good again.
func (c *Cloud) Revoke(revoked bool) { c.RevokeKey(Key, revoked) }

// RevokeKey makes a key worthless, or good again.
func (c *Cloud) RevokeKey(key string, revoked bool) { c.set(func() { c.revoked[key] = revoked }) }

// AddKey makes a key open the cloud beside Key. Both share the slots, as two keys
// of one organization do.
func (c *Cloud) AddKey(key string) { c.set(func() { c.keys = append(c.keys, key) }) }

// Limit is how many slots there are.
func (c *Cloud) Limit(limit int) { c.set(func() { c.limit = &limit }) }

// HeartbeatEvery is the interval that the cloud asks for, in whole seconds.
func (c *Cloud) HeartbeatEvery(next time.Duration) { c.set(func() { c.next = next }) }

// Forget makes the cloud lose a session: heartbeats call it unknown until its
// start is reported again.
func (c *Cloud) Forget(session uuid.UUID) {
	c.set(func() { delete(c.slots, session); c.unknown = append(c.unknown, session) })
}

// Profile adds a profile and returns its id. The function changes it first.
func (c *Cloud) Profile(version int, change ...func(*cloudapi.ProfileConfig)) uuid.UUID {
	config := profileConfig(uuid.Must(uuid.NewV7()), version)
	config.Name = "Checkout"
	for _, apply := range change {
		apply(&config)
	}
	c.set(func() { c.profiles[config.ProfileId] = config })
	return config.ProfileId
}

func profileConfig(id uuid.UUID, version int) cloudapi.ProfileConfig {
	return cloudapi.ProfileConfig{
		ProfileId: id, BrowserVersion: sharedapi.BrowserVersion(version), Args: sharedapi.BrowserArgs{},
		ExtraHTTPHeaders: sharedapi.ExtraHttpHeaders{}, Metadata: sharedapi.Metadata{}, Permissions: sharedapi.Permissions{},
		StartUrls: sharedapi.StartUrls{}, Version: 1,
	}
}

func (c *Cloud) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// Calls lists what was taken in of these operations, in order; of all without
// any.
func (c *Cloud) Calls(operations ...Operation) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Call
	for _, entry := range c.calls {
		if len(operations) == 0 || slices.Contains(operations, entry.Operation) {
			found = append(found, entry.Call)
		}
	}
	return found
}

// Log lists everything that was taken in, in order.
func (c *Cloud) Log() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// CallCount counts the authenticated calls of an operation, however they were
// answered.
func (c *Cloud) CallCount(operation Operation) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.callCounts[operation]
}

// Slots counts the slots that are reserved, and those of running sessions.
func (c *Cloud) Slots() (reserved, running int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slots {
		if s.running {
			running++
		} else {
			reserved++
		}
	}
	return reserved, running
}
