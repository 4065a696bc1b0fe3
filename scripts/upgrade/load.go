package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
)

const (
	machines       = 8
	requestTimeout = 10 * time.Second
	maxErrors      = 5 // that are kept
)

// load is a fleet of machines that launch and end sessions, each request on any replica.
type load struct {
	key     string
	profile uuid.UUID
	stopped chan struct{}
	halt    sync.Once
	running sync.WaitGroup

	mu       sync.Mutex
	replicas []string // URLs
	requests int      // since the last report
	slowest  time.Duration
	errs     []error
}

func newLoad() *load { return &load{stopped: make(chan struct{})} }

// use sets the organization key and the profile.
func (l *load) use(key, profile string) (err error) {
	l.key = key
	l.profile, err = uuid.Parse(profile)
	return err
}

func (l *load) add(url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicas = append(l.replicas, url)
}

func (l *load) remove(url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicas = slices.DeleteFunc(slices.Clone(l.replicas), func(each string) bool { return each == url })
}

func (l *load) start(ctx context.Context) {
	for i := range machines {
		l.running.Go(func() {
			m := machine{load: l, id: fmt.Sprintf("machine-%d", i), boot: uuid.New()}
			for spec := false; ; spec = !spec {
				select {
				case <-l.stopped:
					return
				case <-ctx.Done():
					return
				default:
				}
				if err := m.session(context.WithoutCancel(ctx), spec); err != nil {
					l.failed(err)
				}
			}
		})
	}
}

// stop ends the load when all sessions have ended, and returns the errors since the last
// report.
func (l *load) stop() error {
	l.halt.Do(func() { close(l.stopped) })
	l.running.Wait()
	_, _, err := l.report()
	return err
}

// report returns the number of requests since the last report, the duration of the
// slowest, and their errors.
func (l *load) report() (requests int, slowest time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests, slowest, err = l.requests, l.slowest, errors.Join(l.errs...)
	l.requests, l.slowest, l.errs = 0, 0, nil
	return requests, slowest, err
}

func (l *load) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, err)
	}
}

// call sends a request to any replica, within a timeout.
func (l *load) call(ctx context.Context, send func(context.Context, *cloudapi.ClientWithResponses) error) error {
	l.mu.Lock()
	url := l.replicas[rand.N(len(l.replicas))]
	l.mu.Unlock()
	client, err := cloudapi.NewClientWithResponses(url, cloudapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("X-API-Key", l.key)
		return nil
	}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	began := time.Now()
	err = send(ctx, client)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests, l.slowest = l.requests+1, max(l.slowest, time.Since(began))
	return err
}

// machine is a worker with one session at a time.
type machine struct {
	*load
	id   string
	boot uuid.UUID
	seq  int64
}

// session authorizes, starts, reports and ends a session, of the profile or of a spec.
func (m *machine) session(ctx context.Context, spec bool) error {
	id, profile := uuid.New(), m.profile
	request := cloudapi.AuthorizeRequest{MachineId: m.id, BootId: m.boot, SessionId: id, ProfileId: &profile}
	if spec {
		request.ProfileId, request.Spec = nil, &sharedapi.LaunchSpec{BrowserVersion: new(int32(156))}
	}
	err := m.call(ctx, func(ctx context.Context, c *cloudapi.ClientWithResponses) error {
		answer, err := c.AuthorizeLaunchWithResponse(ctx, request)
		if err != nil {
			return err
		}
		if answer.JSON200 == nil || !answer.JSON200.Data.Allowed || answer.JSON200.Data.ProfileConfig == nil {
			return unexpected("authorize", answer.HTTPResponse, answer.Body)
		}
		profile = answer.JSON200.Data.ProfileConfig.ProfileId
		return nil
	})
	if err != nil {
		return err
	}
	m.seq++
	err = m.call(ctx, func(ctx context.Context, c *cloudapi.ClientWithResponses) error {
		answer, err := c.StartProfileSessionWithResponse(ctx, profile, cloudapi.StartSessionRequest{
			SessionId: id, MachineId: m.id, BootId: m.boot, Seq: m.seq, LaunchId: uuid.New(), BrowserVersion: 156, StartedAt: time.Now(),
		})
		if err == nil && answer.JSON201 == nil {
			return unexpected("start", answer.HTTPResponse, answer.Body)
		}
		return err
	})
	beat := m.call(ctx, func(ctx context.Context, c *cloudapi.ClientWithResponses) error {
		answer, err := c.HeartbeatLicenseSessionsWithResponse(ctx, cloudapi.HeartbeatRequest{
			MachineId: m.id, BootId: m.boot, Seq: m.seq, Sessions: []uuid.UUID{id},
		})
		if err != nil {
			return err
		}
		if answer.JSON200 == nil || !slices.Contains(answer.JSON200.Data.Accepted, id) {
			return unexpected("heartbeat", answer.HTTPResponse, answer.Body)
		}
		return nil
	})
	end := m.call(ctx, func(ctx context.Context, c *cloudapi.ClientWithResponses) error {
		answer, err := c.EndProfileSessionWithResponse(ctx, profile, id, cloudapi.EndSessionRequest{
			Status: new(cloudapi.EndedStatus("exited")), EndReason: new(sharedapi.EndReason("client_close")), EndedAt: new(time.Now()),
		})
		if err == nil && answer.JSON200 == nil {
			return unexpected("end", answer.HTTPResponse, answer.Body)
		}
		return err
	})
	return errors.Join(err, beat, end)
}

func unexpected(operation string, answer *http.Response, body []byte) error {
	return fmt.Errorf("%s: %s: %s", operation, answer.Status, body)
}
