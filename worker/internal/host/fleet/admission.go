package fleet

import (
	"fmt"
	"math"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// retryAfter is when a refused client should retry.
const retryAfter = 5 * time.Second

// Admission decides whether another browser may start. A limit of 0 is
// disabled.
type Admission struct {
	MaxSessions      int
	MaxMemoryPercent float64
	MaxCPUPercent    float64 // of Sample.CPUAverage, so that bursts are ignored
	MinFreeDisk      int64   // bytes
	MinDescriptors   int64   // free ones, for each launch
	Last             func() Sample
}

// ReachedLimit is a limit that is reached.
type ReachedLimit struct {
	Reason  string // max_sessions, memory, cpu, disk or descriptors
	Message string // shown to users

	field, detail  string
	current, limit any
}

// Admit returns nil if another browser may start. Otherwise it returns a
// *fault.Error of kind Unavailable with a detail for each reached limit:
// maxSessions, memory, cpu, disk or descriptors. It reserves nothing: the caller must count
// the launch before the next call.
func (a Admission) Admit(running, launching int) error {
	limits := a.ReachedLimits(running, launching)
	if len(limits) == 0 {
		return nil
	}
	refusal := fault.New(fault.Unavailable, limits[0].Message)
	refusal.RetryAfter = retryAfter
	for _, b := range limits {
		refusal.Details = append(refusal.Details, fault.Detail{
			Field: b.field, Code: fault.Custom, Message: b.detail,
			Constraint: map[string]any{"current": b.current, "limit": b.limit},
		})
	}
	return refusal
}

// ReachedLimits returns the limits for which Admit would refuse, in the same
// order.
func (a Admission) ReachedLimits(running, launching int) []ReachedLimit {
	var found []ReachedLimit
	if count := running + launching; a.MaxSessions > 0 && count >= a.MaxSessions {
		found = append(found, ReachedLimit{
			"max_sessions", fmt.Sprintf("This worker is at its limit of %d sessions (MAX_SESSIONS).", a.MaxSessions), "maxSessions",
			fmt.Sprintf("%d of %d browsers run or start", count, a.MaxSessions), count, a.MaxSessions,
		})
	}
	sample := a.Last()
	if full := sample.MemoryPercent; a.MaxMemoryPercent > 0 && full >= a.MaxMemoryPercent {
		found = append(found, ReachedLimit{
			"memory", fmt.Sprintf("This worker has too little free memory (MAX_USAGE_PERCENT %v).", a.MaxMemoryPercent), "memory",
			fmt.Sprintf("%.1f%% of the memory is in use", full), roundToTenth(full), a.MaxMemoryPercent,
		})
	}
	if busy := sample.CPUAverage; a.MaxCPUPercent > 0 && busy >= a.MaxCPUPercent {
		found = append(found, ReachedLimit{
			"cpu", fmt.Sprintf("This worker's processors are too busy (MAX_USAGE_PERCENT %v).", a.MaxCPUPercent), "cpu",
			fmt.Sprintf("%.1f%% of the processor time is in use", busy), roundToTenth(busy), a.MaxCPUPercent,
		})
	}
	if free := sample.DiskFreeBytes; a.MinFreeDisk > 0 && free < a.MinFreeDisk {
		found = append(found, ReachedLimit{
			"disk", "This worker has too little free disk space.", "disk",
			fmt.Sprintf("%d bytes are free", free), free, a.MinFreeDisk,
		})
	}
	if free, needed := sample.FreeDescriptors, int64(launching+1)*a.MinDescriptors; a.MinDescriptors > 0 && free < needed {
		found = append(found, ReachedLimit{
			"descriptors", "This worker has too few free file descriptors. Raise the limit of open files (ulimit -Hn, LimitNOFILE).", "descriptors",
			fmt.Sprintf("%d file descriptors are free", free), free, needed,
		})
	}
	return found
}

func roundToTenth(percent float64) float64 { return math.Round(10*percent) / 10 }
