// Package recording records what browsers did: a video or the single frames of what they
// showed, a timeline of events, their requests, and a trace (package trace). Pictures come from the display or from a screencast; events come from the
// browser and from package interaction, requests from package har.
//
// A recording is a directory. Its description says whether it is complete. A program that
// reads it later must not expect that the worker could finish it.
package recording

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/worker/internal/media/trace"
)

// Names in the directory of a recording.
const (
	VideoName  = "video.webm"
	EventsName = "events.jsonl"
	HARName    = "har.jsonl" // pages and entries, one per line
	infoName   = "recording.json"

	FramesName     = "frames.jpegs" // JPEGs, one after the other
	FrameIndexName = "frames.jsonl"
)

// State is the state of a recording.
type State string

// The states.
const (
	Running    State = "recording"
	Complete   State = "complete"
	Incomplete State = "incomplete" // it ended early, or a part is missing; see the reason
	Failed     State = "failed"     // nothing was recorded; see the reason
)

// Reason is why a recording is not complete.
type Reason string

// The reasons.
const (
	QuotaExceeded Reason = "quota_exceeded"
	DiskFull      Reason = "disk_full"
	EncoderFailed Reason = "encoder_failed"
	FramesFailed  Reason = "frames_failed"
	HARFailed     Reason = "har_failed"
	TraceFailed   Reason = "trace_failed"
	StartFailed   Reason = "start_failed"
	Interrupted   Reason = "interrupted" // the worker was killed
	NoPicture     Reason = "no_picture"  // the browser ended before it showed one
)

// Info describes a recording.
type Info struct {
	Video         bool      `json:"video"`
	Events        bool      `json:"events"`
	Frames        bool      `json:"frames"`
	HAR           bool      `json:"har"`
	Trace         bool      `json:"trace"`
	State         State     `json:"state"`
	Reason        Reason    `json:"reason,omitempty"`
	Bytes         int64     `json:"bytes"`
	DroppedFrames int64     `json:"droppedFrames"`
	StartedAt     time.Time `json:"startedAt"`
	EndedAt       time.Time `json:"endedAt,omitzero"`

	Stored bool `json:"-"` // it is in the object store, and not on the disk
}

// contentTypes are the types of the files of a recording.
var contentTypes = map[string]string{VideoName: "video/webm", MP4Name: "video/mp4", EventsName: "application/x-ndjson", HARName: "application/x-ndjson", infoName: "application/json", FramesName: "application/octet-stream", FrameIndexName: "application/x-ndjson",
	trace.EventsName: "application/x-ndjson", trace.NetworkName: "application/x-ndjson", trace.ResourcesName: "application/octet-stream", trace.IndexName: "application/x-ndjson",
	trace.StepsName: "application/x-ndjson"}

// files returns the files that a recording can have, without its description.
func (i Info) files() (names []string) {
	if i.Video {
		names = append(names, VideoName)
	}
	if i.Events {
		names = append(names, EventsName)
	}
	if i.Frames {
		names = append(names, FramesName, FrameIndexName)
	}
	if i.HAR {
		names = append(names, HARName)
	}
	if i.Trace {
		names = append(names, trace.Names()...)
	}
	return names
}

func (i Info) has(name string) bool {
	return slices.Contains(i.files(), name) || i.Video && name == MP4Name
}

// Errors of this package.
var (
	ErrNone    = errors.New("recording: no such recording")
	ErrRunning = errors.New("recording: the session is still recorded")
	ErrExists  = errors.New("recording: the session was already recorded")
	ErrMissing = errors.New("recording: this part was not recorded")
	ErrStore   = errors.New("recording: the object store failed")

	ErrNoFFmpeg = errors.New("this worker has no ffmpeg in its PATH")
)

// Metrics counts recordings.
type Metrics struct {
	dropped prometheus.Counter
	pending prometheus.Gauge
	uploads *prometheus.CounterVec
	bytes   prometheus.Counter
}

// NewMetrics registers the metrics; nil registers none.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "svc_worker_recording_frames_dropped_total",
			Help: "Frames of videos of sessions that the machine was too busy to encode in time.",
		}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "svc_worker_recordings_unstored",
			Help: "Ended recordings that are not in OBJECT_STORE_URL yet.",
		}),
		uploads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_worker_recording_uploads_total",
			Help: "Attempts to store a recording in OBJECT_STORE_URL, by result.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "svc_worker_recording_upload_bytes_total",
			Help: "Bytes that were sent to OBJECT_STORE_URL.",
		}),
	}
	for _, result := range []string{"success", "failure"} { // exported from the start
		m.uploads.WithLabelValues(result)
	}
	if registry != nil {
		registry.MustRegister(m.dropped, m.pending, m.uploads, m.bytes)
	}
	return m
}

func (m *Metrics) countUpload(bytes int64, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.uploads.WithLabelValues(result).Inc()
	m.bytes.Add(float64(bytes))
}
