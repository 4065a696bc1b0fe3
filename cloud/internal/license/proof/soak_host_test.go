package proof_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

// soakCounts counts the calls of the fleet.
type soakCounts struct {
	launches, refused, left, ends, beats, released, unknown, deaths, restarts atomic.Int64
}

// String formats the counts for the log.
func (c *soakCounts) String() string {
	return fmt.Sprintf("%d launches, %d refused, %d given up by their callers, %d ends, %d heartbeats that released %d and did not know %d, %d hosts died, %d restarted",
		c.launches.Load(), c.refused.Load(), c.left.Load(), c.ends.Load(), c.beats.Load(), c.released.Load(), c.unknown.Load(), c.deaths.Load(), c.restarts.Load())
}

// soakHost is a simulated worker. It launches until it has the desired number of
// sessions, ends each after its duration, sends heartbeats as requested, and crashes
// or restarts now and then. All times are simulated.
type soakHost struct {
	soak  *soak
	org   int
	name  string
	wants int
	cloud *license.Service

	boot     uuid.UUID // Nil while it is down
	back     time.Time // time of the next boot
	seq      int64
	sessions map[uuid.UUID]time.Time // with the end time of each
	report   time.Time               // time of the next heartbeat
	launch   time.Time               // earliest time of the next launch
}

func (h *soakHost) now() time.Time { return h.soak.clock.Now() }

// between returns a random duration.
func between(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

// work runs the host until that time.
func (h *soakHost) work(until time.Time) {
	for !h.soak.t.Failed() {
		now := h.now()
		next := h.step(now)
		if next.After(until) {
			next = until
		}
		if !h.now().Before(until) {
			return
		}
		time.Sleep(speedUp(next.Sub(h.now())))
	}
}

// step does what is due and returns the time of the next step.
func (h *soakHost) step(now time.Time) time.Time {
	if h.boot == uuid.Nil {
		if now.Before(h.back) {
			return h.back
		}
		h.comeUp()
		h.beat()
	}
	if !now.Before(h.report) {
		h.beat()
		if rand.IntN(h.soak.calm) == 0 {
			return h.goDown(now)
		}
	}
	next := h.report
	for session, ends := range h.sessions {
		if !now.Before(ends) {
			h.end(session, license.Idle)
		} else if ends.Before(next) {
			next = ends
		}
	}
	if len(h.sessions) < h.wants && !now.Before(h.launch) {
		h.launch = now.Add(between(time.Second, 10*time.Second))
		h.start()
	}
	if len(h.sessions) < h.wants && h.launch.Before(next) {
		next = h.launch
	}
	return next
}

// comeUp boots a host that is down.
func (h *soakHost) comeUp() {
	if h.boot == uuid.Nil {
		h.boot, h.seq, h.sessions = uuid.Must(uuid.NewV7()), 0, map[uuid.UUID]time.Time{}
	}
}

// goDown restarts the host gracefully, or lets it crash with its sessions. Some boot
// again before their slots have expired.
func (h *soakHost) goDown(now time.Time) time.Time {
	if rand.IntN(2) == 0 {
		for session := range h.sessions {
			h.end(session, license.Drain)
		}
		h.soak.counted.restarts.Add(1)
	} else {
		h.soak.counted.deaths.Add(1)
	}
	h.boot, h.sessions, h.back = uuid.Nil, nil, now.Add(between(time.Minute, 9*time.Minute))
	return h.back
}

func (h *soakHost) start() {
	session, profile := uuid.Must(uuid.NewV7()), h.soak.orgs[h.org]
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	left := rand.IntN(50) == 0
	if left {
		ctx, cancel = context.WithTimeout(ctx, rand.N(2*time.Millisecond))
		defer cancel()
	}
	grant, err := h.cloud.Authorize(ctx, license.Request{
		OrgID: h.soak.orgs[h.org], MachineID: h.name, BootID: h.boot, SessionID: session, ProfileID: &profile,
	})
	switch {
	case err != nil && left:
		h.soak.counted.left.Add(1)
		return
	case err != nil:
		h.soak.t.Errorf("authorize: %v", err)
		return
	case !grant.Allowed:
		h.soak.counted.refused.Add(1)
		return
	}
	h.seq++
	_, err = h.cloud.Start(context.Background(), license.StartReport{
		OrgID: h.soak.orgs[h.org], ProfileID: profile, SessionID: session, SlotID: &grant.SlotID, MachineID: h.name, BootID: h.boot,
		Seq: h.seq, LaunchID: session, BrowserVersion: 156, StartedAt: h.now(),
	})
	if err != nil {
		if !fault.Is(err, fault.PaymentRequired) { // the reservation expired because the test machine is very busy
			h.soak.t.Errorf("start: %v", err)
		}
		return
	}
	h.soak.counted.launches.Add(1)
	h.sessions[session] = h.now().Add(between(3*time.Minute, 30*time.Minute))
}

func (h *soakHost) end(session uuid.UUID, reason license.EndReason) {
	delete(h.sessions, session)
	org := h.soak.orgs[h.org]
	_, err := h.cloud.End(context.Background(), license.EndReport{OrgID: org, ProfileID: org, SessionID: session, EndReason: reason})
	if err != nil {
		h.soak.t.Errorf("end: %v", err)
	}
	h.soak.counted.ends.Add(1)
}

// beat sends a heartbeat.
func (h *soakHost) beat() {
	h.seq++
	report := license.HeartbeatReport{OrgID: h.soak.orgs[h.org], MachineID: h.name, BootID: h.boot, Seq: h.seq}
	for session := range h.sessions {
		report.Sessions = append(report.Sessions, session)
	}
	result, err := h.cloud.Heartbeat(context.Background(), report)
	if err != nil || !result.Applied {
		h.soak.t.Errorf("heartbeat: %+v, %v", result, err)
	}
	h.soak.counted.beats.Add(1)
	h.soak.counted.released.Add(int64(len(result.Released)))
	h.soak.counted.unknown.Add(int64(len(result.Unknown)))
	h.report = h.now().Add(result.Next)
}
