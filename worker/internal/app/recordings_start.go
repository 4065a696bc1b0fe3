package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/data/files"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// launched starts what a launch asks for. It returns why the recording could not start.
func (w *worker) launched(launchID uuid.UUID, request launch.Request, parts launch.Record) (failure string) {
	if !request.CollectLogs && !parts.Any() && w.audit == nil {
		return ""
	}
	b, ok := (browserFinder{w.launches}).Find(launchID.String())
	if ok && w.audit != nil {
		w.logActions(launchID, b)
	}
	if ok && request.CollectLogs {
		w.logs.Start(b)
	}
	if !parts.Any() {
		return ""
	}
	if !ok { // the browser has ended
		return string(recording.StartFailed)
	}
	err := w.record(b, parts, request.OrganizationKey)
	if err == nil {
		return ""
	}
	w.logger.Error("failed to record a session", "sessionId", b.SessionID, "error", err)
	if errors.Is(err, files.ErrDiskFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return string(recording.DiskFull)
	}
	return string(recording.StartFailed)
}

// record starts to record a browser. Errors: files.ErrEnded, files.ErrDiskFull, recording.ErrExists.
func (w *worker) record(b access.Browser, parts launch.Record, key session.OrganizationKey) (err error) {
	owner, err := w.recordingOwner(key)
	if err != nil {
		return err
	}
	id, err := uuid.Parse(b.SessionID)
	if err != nil {
		return fmt.Errorf("session id: %w", err)
	}
	launchID, err := uuid.Parse(b.LaunchID)
	if err != nil {
		return fmt.Errorf("launch id: %w", err)
	}
	running, ok := w.launches.Browser(launchID)
	if !ok {
		return files.ErrEnded
	}
	dir, err := b.Files.Record()
	switch {
	case errors.Is(err, fs.ErrExist):
		return recording.ErrExists
	case errors.Is(err, files.ErrEnded):
		return err
	case err == nil:
		subject := recording.Subject{
			Session: id, Dir: dir, Owner: owner, Done: b.Done, CheckSpace: func() recording.Reason { return checkSpace(b.Files) },
			Video: parts.Video, Frames: parts.Frames, StartProcess: startEncoder(running.StartEncoder),
			Ended: func(info recording.Info) {
				if info.State != recording.Failed {
					w.launches.Happened(id, key, session.Event{Type: session.RecordingReady, Parts: parts.Names(), State: string(info.State)})
				}
			},
		}
		if parts.Video || parts.Frames {
			subject.Pictures = func(ctx context.Context, show func(recording.Picture)) error { return pictures(ctx, b, show) }
		}
		if parts.Events {
			w.logs.Start(b)
			subject.Events = func(ctx context.Context, add func(recording.Event)) error { return w.events(ctx, b, add) }
		}
		recorded := func() {}
		if parts.HAR {
			subject.Requests, recorded = requestsOf(b)
		}
		if parts.Trace {
			subject.Trace = w.tracer(b)
		}
		switch err = w.recordings.Start(subject); {
		case err == nil:
			recorded()
		case subject.Trace != nil:
			subject.Trace.Close()
		}
	}
	if err != nil { // nothing of it is kept
		err = errors.Join(err, w.files.RemoveRecording(id))
	}
	return err
}

// startEncoder starts ffmpeg in a sandbox.
func startEncoder(start func(context.Context, browser.EncoderCommand) (*browser.Encoder, error)) recording.StartProcess {
	return func(ctx context.Context, c recording.Command) (recording.Process, error) {
		started, err := start(ctx, browser.EncoderCommand(c))
		if err != nil {
			return nil, err
		}
		return started, nil
	}
}

// recorder starts and stops the recordings of running browsers, for package fileserver.
type recorder struct {
	*worker
	describe func(session.Session) *workerapi.Recording
}

// StartRecording implements fileserver.Recorder.
func (r recorder) StartRecording(b access.Browser, names []string) (*workerapi.Recording, error) {
	parts := launch.NewRecord(names)
	if err := r.launches.CheckRecord(parts, "record"); err != nil {
		return nil, err
	}
	recorded, err := r.sessionOf(b)
	if err != nil {
		return nil, err
	}
	if err := b.Files.CheckSpace(); err != nil {
		return nil, err
	}
	if err := r.record(b, parts, recorded.OrganizationKey); err != nil {
		return nil, err
	}
	return r.describe(recorded), nil
}

// StopRecording implements fileserver.Recorder.
func (r recorder) StopRecording(ctx context.Context, b access.Browser) (*workerapi.Recording, error) {
	recorded, err := r.sessionOf(b)
	if err != nil {
		return nil, err
	}
	if _, err := r.recordings.Stop(ctx, recorded.ID); err != nil {
		return nil, err
	}
	return r.describe(recorded), nil
}

// sessionOf returns the session of a browser. Error: files.ErrEnded.
func (r recorder) sessionOf(b access.Browser) (session.Session, error) {
	id, err := uuid.Parse(b.SessionID)
	if err != nil {
		return session.Session{}, fmt.Errorf("session id: %w", err)
	}
	found, ok := r.sessions.Get(id)
	if !ok || found.Status != session.Running {
		return session.Session{}, files.ErrEnded
	}
	return found, nil
}
