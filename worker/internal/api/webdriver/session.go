package webdriver

import (
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

const (
	// commandTimeout limits a command. Scripts and page loads have their own timeouts,
	// which clients choose.
	commandTimeout = time.Hour
	driverHost     = browser.DriverAddress // chromedriver accepts only requests for its loopback address
)

// driverSession is a WebDriver session: a launch and its chromedriver.
type driverSession struct {
	id       string // a credential
	driverID string // the session's id in chromedriver
	launched session.Session
	version  string // of the browser
	running  launch.Running
	driver   *browser.Driver
	client   *http.Client
	tapped   *tap.Client // for an observer of the commands

	managesDownloads bool       // the client may list, read and delete downloads
	uploading        sync.Mutex // one at a time: an upload is in memory
}

func newDriverSession(launched session.Session, running launch.Running, driver *browser.Driver) *driverSession {
	return &driverSession{
		id: newID(), launched: launched, version: running.Browser.Build.Version, running: running, driver: driver, tapped: &tap.Client{Name: "WebDriver"},
		client: &http.Client{
			Timeout:       commandTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return driver.Dial(ctx) },
				MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, DisableCompression: true,
			},
		},
	}
}

// send sends a command to chromedriver. path, escaped in raw, is relative to the session;
// it is empty for a new session.
func (d *driverSession) send(ctx context.Context, method, path, raw string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+driverHost+"/session", body)
	if err != nil {
		return nil, err
	}
	if d.driverID != "" {
		r.URL.Path, r.URL.RawPath = "/session/"+d.driverID+path, "/session/"+d.driverID+raw
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	return d.client.Do(r)
}

// add adds a session and watches it.
func (s *Service) add(d *driverSession) {
	key := sha256.Sum256([]byte(d.id))
	s.mu.Lock()
	s.sessions[key] = d
	s.work.Add(1) // begin of the caller delays Close
	s.mu.Unlock()
	go func() {
		defer s.work.Done()
		defer d.client.CloseIdleConnections()
		select {
		case <-d.driver.Done(): // it also ends with the browser
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		delete(s.sessions, key)
		s.mu.Unlock()
		s.endBrowser(d.launched, session.Crash) // no effect if the browser has ended
	}()
}

// find returns the session with an id.
func (s *Service) find(id string) (*driverSession, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.sessions[sha256.Sum256([]byte(id))]
	return d, ok
}

// endBrowser ends the browser of a session.
func (s *Service) endBrowser(launched session.Session, reason session.EndReason) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if _, err := s.Launches.KillLaunch(ctx, launched.LaunchID, reason); err != nil {
		s.Logger.Error("failed to end browser", "launchId", launched.LaunchID, "error", err)
	}
}
