// Package recording records what browsers did: a video of what they showed, and a timeline
// of events. Pictures come from the display or from a screencast; events come from the
// browser and from package interaction.
//
// A recording is a directory. Its description says whether it is complete. A program that
// reads it later must not expect that the worker could finish it.
package recording

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names in the directory of a recording.
const (
	VideoName  = "video.webm"
	EventsName = "events.jsonl"
	infoName   = "recording.json"
)

// State is the state of a recording.
type State string

// The states.
const (
	Running    State = "recording"
	Complete   State = "complete"
	Incomplete State = "incomplete" // it ended early; see the reason
)

// Reason is why a recording is incomplete.
type Reason string

// The reasons.
const (
	QuotaExceeded Reason = "quota_exceeded"
	DiskFull      Reason = "disk_full"
	EncoderFailed Reason = "encoder_failed"
	Interrupted   Reason = "interrupted" // the worker was killed
	NoPicture     Reason = "no_picture"  // the browser ended before it showed one
)

// Info describes a recording.
type Info struct {
	Video         bool      `json:"video"`
	Events        bool      `json:"events"`
	State         State     `json:"state"`
	Reason        Reason    `json:"reason,omitempty"`
	Bytes         int64     `json:"bytes"`
	DroppedFrames int64     `json:"droppedFrames"`
	StartedAt     time.Time `json:"startedAt"`
	EndedAt       time.Time `json:"endedAt,omitzero"`
}

// Errors of this package.
var (
	ErrNone    = errors.New("recording: no such recording")
	ErrRunning = errors.New("recording: the session is still recorded")
	ErrMissing = errors.New("recording: this part was not recorded")
)

// Metrics counts recordings.
type Metrics struct{ dropped prometheus.Counter }

// NewMetrics registers the metrics; nil registers none.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{dropped: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "svc_worker_recording_frames_dropped_total",
		Help: "Pictures that videos of sessions lack because the machine was busy.",
	})}
	if registry != nil {
		registry.MustRegister(m.dropped)
	}
	return m
}
