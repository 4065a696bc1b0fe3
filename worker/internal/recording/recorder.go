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

	mu   sync.Mutex
	info Info
}

func newRecorder(s *Service, of Subject) *recorder {
	return &recorder{service: s, subject: of, info: Info{
		Video: of.Pictures != nil && of.Video, Frames: of.Pictures != nil && of.Frames, Events: of.Events != nil, State: Running, StartedAt: time.Now(),
	}}
}

// current returns the description with the present size.
func (r *recorder) current() Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	info := r.info
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

// run records until the browser or ctx ends, or CheckSpace returns a reason.
func (r *recorder) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	var videoFailed, framesFailed, eventsFailed Reason
	if r.subject.Events != nil {
		parts.Go(func() { eventsFailed = r.recordEvents(ctx) })
	}
	waiting := 1 // frames need only the latest picture
	if r.info.Video {
		waiting = maxWaiting
	}
	s := newScreen(waiting)
	if r.subject.Pictures != nil {
		parts.Go(func() {
			repeat(ctx, func(ctx context.Context) error { return r.subject.Pictures(ctx, s.show) })
		})
	}
	if r.info.Video {
		parts.Go(func() {
			if videoFailed = r.recordVideo(ctx, s); videoFailed == EncoderFailed {
				r.service.Log.Error("a video could not be recorded", "sessionId", r.subject.Session)
			}
		})
	}
	if r.info.Frames {
		parts.Go(func() { framesFailed = r.recordFrames(ctx, s) })
	}
	full := r.await(ctx)
	r.mu.Lock()
	r.info.EndedAt = time.Now()
	r.mu.Unlock()
	cancel()
	parts.Wait()
	r.finish(cmp.Or(full, videoFailed, framesFailed, eventsFailed))
}

// await waits for the end of the browser, and returns a reason for an earlier end.
func (r *recorder) await(ctx context.Context) Reason {
	check := time.NewTicker(roomInterval)
	defer check.Stop()
	for {
		select {
		case <-r.subject.Done:
			return ""
		case <-ctx.Done():
			return ""
		case <-check.C:
			if full := r.subject.CheckSpace(); full != "" {
				r.service.Log.Warn("a recording ended early", "sessionId", r.subject.Session, "reason", string(full))
				return full
			}
		}
	}
}

// finish stores how the recording has ended.
func (r *recorder) finish(reason Reason) {
	bytes := size(r.subject.Dir)
	r.mu.Lock()
	r.info.State, r.info.Reason, r.info.Bytes = Complete, reason, bytes
	if reason != "" {
		r.info.State = Incomplete
	}
	r.mu.Unlock()
	r.service.Log.Info("recording ended", "sessionId", r.subject.Session, "state", string(r.info.State), "reason", string(reason), "bytes", bytes,
		"droppedFrames", r.info.DroppedFrames, "encoderCPU", r.encoderCPU)
	if err := r.save(); err != nil {
		r.service.Log.Error("failed to save the description of a recording", "sessionId", r.subject.Session, "error", err)
	}
	if store := r.service.Store; store != nil {
		if err := store.enqueue(r.subject.Session, r.subject.Dir, r.current()); err != nil {
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
