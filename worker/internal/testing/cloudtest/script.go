package cloudtest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
)

// Answer replaces the cloud's answer. If it writes nothing, the cloud answers
// afterwards.
type Answer func(w http.ResponseWriter, r *http.Request)

// Script sets the answers to the next calls of an operation, in order.
func (c *Cloud) Script(operation Operation, answers ...Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script[operation] = append(c.script[operation], answers...)
}

// Always sets the answer to every call of an operation; nil removes it.
func (c *Cloud) Always(operation Operation, answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.always[operation] = answer
}

// Raw answers with this status, content type and body.
func Raw(status int, contentType, body string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// JSON answers with this status and JSON body.
func JSON(status int, body string) Answer { return Raw(status, "application/json", body) }

// Failure answers with the failure envelope of a kind.
func Failure(kind fault.Kind, message string, details ...fault.Detail) Answer {
	body, err := json.Marshal(map[string]any{
		"success": false,
		"error":   map[string]any{"code": kind.Code(), "message": message, "details": append([]fault.Detail{}, details...)},
	})
	if err != nil {
		panic(err) // a detail that cannot be encoded
	}
	return JSON(kind.Status(), string(body))
}

// Reset resets the connection without an answer.
func Reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // the cloud uses HTTP/1.1
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Truncated sends less than its Content-Length.
func Truncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"success":true,"data":{"allowed":true,`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// Slow delays the fake cloud's answer, at most until the caller disconnects.
func Slow(wait time.Duration) Answer {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
		}
	}
}

// Until delays the fake cloud's answer until the context ends or the caller
// disconnects.
func Until(until context.Context) Answer {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-until.Done():
		case <-r.Context().Done():
		}
	}
}

// Down makes the cloud reset every connection, or answer again.
func (c *Cloud) Down(down bool) { c.set(func() { c.down = down }) }

// SetContractVersion sets the contract version of every answer; empty for none.
func (c *Cloud) SetContractVersion(contract string) { c.set(func() { c.contract = &contract }) }

// Revoke makes the organization key invalid, or valid again.
func (c *Cloud) Revoke(revoked bool) { c.RevokeKey(Key, revoked) }

// RevokeKey makes a key invalid, or valid again.
func (c *Cloud) RevokeKey(key string, revoked bool) { c.set(func() { c.revoked[key] = revoked }) }

// AddKey adds a valid key of the same organization: it shares the slots of Key.
func (c *Cloud) AddKey(key string) { c.set(func() { c.keys = append(c.keys, key) }) }

// OrganizationNetwork sets the network rules of the organization; nil for none.
func (c *Cloud) OrganizationNetwork(rules *sharedapi.StoredNetworkRules) {
	c.set(func() { c.network = rules })
}

// Limit sets the number of slots.
func (c *Cloud) Limit(limit int) { c.set(func() { c.limit = &limit }) }

// HeartbeatEvery sets the heartbeat interval that the cloud requests, in whole seconds.
func (c *Cloud) HeartbeatEvery(next time.Duration) { c.set(func() { c.next = next }) }

// Forget removes a session: heartbeats report it as unknown until its start is
// reported again.
func (c *Cloud) Forget(session uuid.UUID) {
	c.set(func() { delete(c.slots, session); c.unknown = append(c.unknown, session) })
}

// Profile adds a profile, changed by the function, and returns its id.
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
		StartUrls: sharedapi.StartUrls{}, CaCertificates: sharedapi.CaCertificates{}, ClientCertificates: cloudapi.LaunchClientCertificates{}, Record: sharedapi.RecordedParts{}, Version: 1,
	}
}

func (c *Cloud) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// Calls returns the accepted calls of these operations, or of all operations if none
// is given, in order.
func (c *Cloud) Calls(operations ...Operation) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Call
	for _, call := range c.calls {
		if len(operations) == 0 || slices.Contains(operations, call.Operation) {
			found = append(found, call)
		}
	}
	return found
}

// CallCount returns the number of authenticated calls of an operation, regardless of their
// answer.
func (c *Cloud) CallCount(operation Operation) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.callCounts[operation]
}

// Slots returns the numbers of reserved slots and of slots of running sessions.
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

// Await waits until the cloud has this many slots. It fails the test after five
// seconds.
func (c *Cloud) Await(t testing.TB, reserved, running int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		isReserved, isRunning := c.Slots()
		if isReserved == reserved && isRunning == running {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cloud has %d reserved and %d running slots, want %d and %d", isReserved, isRunning, reserved, running)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
