package recording

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	roomInterval  = time.Second // between checks of the quota and the disk
	retryInterval = time.Second // after pictures or events were interrupted
)

// recorder records one browser.
type recorder struct {
	service *Service
	subject Subject

	encoderCPU time.Duration // after the end of the video
	stop       context.CancelFunc
	ended      chan struct{} // closed when the recording is on the disk

	mu   sync.Mutex
	info Info
}

func newRecorder(s *Service, subject Subject) *recorder {
	return &recorder{service: s, subject: subject, ended: make(chan struct{}), info: Info{
		Video: subject.Pictures != nil && subject.Video, Frames: subject.Pictures != nil && subject.Frames, Events: subject.Events != nil, HAR: subject.Requests != nil, Trace: subject.Trace != nil, State: Running, StartedAt: time.Now(),
	}}
}

// current returns the description with the present size.
func (r *recorder) current() Info {
	r.mu.Lock()
	info := r.info
	r.mu.Unlock()
	if info.State == Running {
		info.Bytes = size(r.subject.Dir)
	}
	return info
}

// save writes the description.
func (r *recorder) save() error {
	raw, err := json.Marshal(r.current())
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	path := filepath.Join(r.subject.Dir, infoName)
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}

// run records until the browser or ctx ends, all parts have failed, or CheckSpace returns a reason.
func (r *recorder) run(ctx context.Context) {
	defer close(r.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := 1 // frames need only the latest picture
	if r.info.Video {
		waiting = maxWaiting
	}
	s := newScreen(waiting)
	parts := r.parts(s)
	failures := make(chan Reason, len(parts))
	var work sync.WaitGroup
	for _, record := range parts {
		work.Go(func() { failures <- record(ctx) })
	}
	if r.subject.Pictures != nil {
		work.Go(func() {
			repeat(ctx, func(ctx context.Context) error { return r.subject.Pictures(ctx, s.show) })
		})
	}
	full := r.await(ctx, failures, len(parts))
	r.mu.Lock()
	r.info.EndedAt, r.info.Reason = time.Now(), cmp.Or(full, r.info.Reason)
	r.mu.Unlock()
	cancel()
	work.Wait()
	close(failures)
	for reason := range failures {
		r.fail(reason)
	}
	r.finish()
}

// parts returns the functions that record the parts until their context ends. They return why they have failed.
func (r *recorder) parts(s *screen) (parts []func(context.Context) Reason) {
	if r.info.Video {
		parts = append(parts, func(ctx context.Context) Reason { return r.recordVideo(ctx, s) })
	}
	if r.info.Frames {
		parts = append(parts, func(ctx context.Context) Reason { return r.recordFrames(ctx, s) })
	}
	if r.info.Events {
		parts = append(parts, r.recordEvents)
	}
	if r.info.HAR {
		parts = append(parts, r.recordRequests)
	}
	if r.info.Trace {
		parts = append(parts, r.recordTrace)
	}
	return parts
}

// fail records why a part has failed; the first reason counts.
func (r *recorder) fail(reason Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.info.Reason = cmp.Or(r.info.Reason, reason)
}

// await waits for the end of the browser or of all parts, and returns a reason for an earlier end.
func (r *recorder) await(ctx context.Context, failures <-chan Reason, parts int) Reason {
	check := time.NewTicker(roomInterval)
	defer check.Stop()
	for parts > 0 {
		select {
		case <-r.subject.Done:
			return ""
		case <-ctx.Done():
			return ""
		case reason := <-failures:
			r.fail(reason)
			parts--
		case <-check.C:
			if full := r.subject.CheckSpace(); full != "" {
				r.service.Log.Warn("a recording ended early", "sessionId", r.subject.Session, "reason", string(full))
				return full
			}
		}
	}
	return r.subject.CheckSpace() // a full disk is a better reason than its consequences
}

// finish stores how the recording has ended.
func (r *recorder) finish() {
	bytes := size(r.subject.Dir)
	r.mu.Lock()
	r.info.State, r.info.Bytes = Complete, bytes
	switch {
	case r.info.Reason != "" && bytes == 0:
		r.info.State = Failed
	case r.info.Reason != "":
		r.info.State = Incomplete
	}
	info := r.info
	r.mu.Unlock()
	r.service.Log.Info("recording ended", "sessionId", r.subject.Session, "state", string(info.State), "reason", string(info.Reason), "bytes", bytes,
		"droppedFrames", info.DroppedFrames, "encoderCPU", r.encoderCPU)
	if err := r.save(); err != nil {
		r.service.Log.Error("failed to save the description of a recording", "sessionId", r.subject.Session, "error", err)
	}
	if r.subject.Ended != nil {
		r.subject.Ended(info)
	}
	if store := r.service.Store; store != nil {
		if err := store.enqueue(r.subject.Session, r.subject.Dir, info); err != nil {
			r.service.Log.Error("failed to store a recording; the next start of this worker tries again", "sessionId", r.subject.Session, "error", err)
		}
	}
}

// countDropped counts frames that were not encoded in time: they may show an earlier picture.
func (r *recorder) countDropped(n int64) {
	r.service.Metrics.dropped.Add(float64(n))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.info.DroppedFrames += n
}

// repeat calls do again after failures until ctx ends.
func repeat(ctx context.Context, do func(context.Context) error) {
	for ctx.Err() == nil {
		_ = do(ctx) // pictures and events are interrupted when a browser is busy or ends
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
		}
	}
}
