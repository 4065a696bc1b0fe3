package mcp

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// endTimeout bounds how long the end of a session waits for the end of a browser.
const endTimeout = 30 * time.Second

// sessionKey is the key of the clientSession in the contexts of a session.
type sessionKey struct{}

// clientSession is a session of a client, with the browsers that it launched.
type clientSession struct {
	service *Service
	caller  caller
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc

	mu       sync.Mutex
	open     *sdk.ServerSession // nil until the client has started the session
	browsers []*browser         // in order of launch
	launched int
}

// reserve adds a session if no limit is reached. Error: Unavailable.
func (s *Service) reserve(who caller) (*clientSession, error) {
	client := &clientSession{service: s, caller: who}
	client.ctx, client.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	same := 0
	for other := range s.sessions {
		if other.caller.equal(who) {
			same++
		}
	}
	switch {
	case s.closed:
		return nil, fault.New(fault.Unavailable, "This worker is shutting down.")
	case same >= maxSessionsPerKey:
		return nil, fault.New(fault.Unavailable, fmt.Sprintf("This key has reached its limit of %d MCP sessions on this worker. End one (DELETE /mcp) and retry.", maxSessionsPerKey))
	case len(s.sessions) >= s.MaxSessions:
		return nil, fault.New(fault.Unavailable, fmt.Sprintf("This worker is at its limit of %d MCP sessions. Retry later or use another worker.", s.MaxSessions))
	}
	s.sessions[client] = struct{}{}
	return client, nil
}

// opened records that the client has started the session. When it ends, its browsers end.
func (c *clientSession) opened(sdkSession *sdk.ServerSession) error {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.Unavailable, "This worker is shutting down.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != nil {
		return nil
	}
	c.open = sdkSession
	s.running.Go(func() {
		_ = sdkSession.Wait()
		c.cancel()
		c.endBrowsers()
		s.drop(c)
	})
	return nil
}

func (s *Service) dropUnlessOpen(client *clientSession) {
	client.mu.Lock()
	open := client.open != nil
	client.mu.Unlock()
	if !open {
		client.cancel()
		s.drop(client)
	}
}

func (s *Service) drop(client *clientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, client)
}

// find returns the open session with an id, or nil.
func (s *Service) find(id string) *clientSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	for client := range s.sessions {
		client.mu.Lock()
		found := client.open != nil && client.open.ID() == id
		client.mu.Unlock()
		if found {
			return client
		}
	}
	return nil
}

// close ends the session. The browsers end afterwards.
func (c *clientSession) close() {
	c.cancel()
	c.mu.Lock()
	open := c.open
	c.mu.Unlock()
	if open != nil {
		_ = open.Close()
	}
}

// endBrowsers ends the browsers of the session, except those with keepAlive.
func (c *clientSession) endBrowsers() {
	c.mu.Lock()
	browsers := c.browsers
	c.browsers = nil
	c.mu.Unlock()
	reason := session.ClientClose
	c.service.mu.Lock()
	if c.service.closed {
		reason = session.Drain
	}
	c.service.mu.Unlock()
	var ending sync.WaitGroup
	for _, b := range browsers {
		b.close()
		if b.keepAlive {
			continue
		}
		ending.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
			defer cancel()
			if err := c.kill(ctx, b, reason); err != nil {
				c.service.Logger.Error("failed to end browser", "launchId", b.launchID, "error", err)
			}
		})
	}
	ending.Wait()
}

// kill ends a browser that may have ended.
func (c *clientSession) kill(ctx context.Context, b *browser, reason session.EndReason) error {
	_, err := c.service.Launches.KillLaunch(ctx, b.launchID, reason)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// add adds a launched browser and returns false if the session has ended.
func (c *clientSession) add(b *browser) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.launched++
	b.name = fmt.Sprintf("b%d", c.launched)
	c.browsers = append(c.browsers, b)
	return true
}

func (c *clientSession) remove(b *browser) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.browsers = slices.DeleteFunc(c.browsers, func(other *browser) bool { return other == b })
}

// list returns the browsers of the session, also those that have ended elsewhere.
func (c *clientSession) list() []*browser {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.browsers)
}

// browser returns the browser with a handle, or the one launched last.
func (c *clientSession) browser(handle string) (*browser, error) {
	all := c.list()
	if handle == "" && len(all) > 0 {
		return all[len(all)-1], nil
	}
	for _, b := range all {
		if b.name == handle {
			return b, nil
		}
	}
	if handle == "" {
		return nil, toolError("No browser is open. Call launch_browser first.")
	}
	return nil, toolError(fmt.Sprintf("There is no browser %q in this session. Call list_browsers, or launch_browser for a new one.", handle))
}
