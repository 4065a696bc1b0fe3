package browser

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/browser-svc/svc/shared/weborigin"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	// maxOrigins limits the origins that a browser remembers. Origins that were seen
	// longest ago are forgotten first.
	maxOrigins  = 500
	originQueue = 1024
)

// originLog records the origins of the pages and of the frames with an own process
// that a browser has shown. Nobody else knows them: Chromium does not list the
// origins that have storage.
type originLog struct {
	work sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	origins []string
}

// start records origins until the connection ends.
func (o *originLog) start(conn *cdp.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.work.Go(func() {
		for o.follow(conn) {
		}
	})
}

// wait waits for the end of the recording; the connection must be closing.
func (o *originLog) wait() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.work.Wait()
}

// follow records origins. It returns true if events were lost, to be called again.
func (o *originLog) follow(conn *cdp.Conn) bool {
	events := conn.Subscribe(originQueue, "Target.targetCreated", "Target.targetInfoChanged")
	discover := object{"discover": true, "filter": []object{{"type": "page"}, {"type": "iframe"}, {"exclude": true}}}
	reply, err := conn.Send(context.Background(), "", "Target.setDiscoverTargets", discover) // ends with the connection
	if err != nil {
		return false
	}
	reply.Discard()
	for e := range events.Events() {
		var target struct{ TargetInfo struct{ URL string } }
		if json.Unmarshal(e.Params, &target) == nil {
			o.add(target.TargetInfo.URL)
		}
	}
	return errors.Is(events.Err(), cdp.ErrLagged)
}

// add records the origin of a URL.
func (o *originLog) add(address string) {
	origin := weborigin.Of(address)
	if origin == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.origins); n > 0 && o.origins[n-1] == origin {
		return
	}
	if i := slices.Index(o.origins, origin); i >= 0 {
		o.origins = slices.Delete(o.origins, i, i+1)
	}
	if o.origins = append(o.origins, origin); len(o.origins) > maxOrigins {
		o.origins = slices.Delete(o.origins, 0, 1)
	}
}

func (o *originLog) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.origins)
}
