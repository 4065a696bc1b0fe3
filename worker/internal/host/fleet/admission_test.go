package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
)

func TestAdmission_NamesEveryReachedLimit(t *testing.T) {
	calm := Sample{CPUPercent: 100, CPUAverage: 20, MemoryPercent: 40, DiskFreeBytes: 5000}
	strained := Sample{CPUPercent: 0, CPUAverage: 91.26, MemoryPercent: 93.04, DiskFreeBytes: 999}
	limits := Admission{MaxSessions: 4, MaxMemoryPercent: 90, MaxCPUPercent: 80, MinFreeDisk: 1000}
	memoryFault := fault.Detail{Field: "memory", Code: fault.Custom, Message: "93.0% of the memory is in use", Constraint: map[string]any{"current": 93.0, "limit": 90.0}}
	cpuFault := fault.Detail{Field: "cpu", Code: fault.Custom, Message: "91.3% of the processor time is in use", Constraint: map[string]any{"current": 91.3, "limit": 80.0}}
	diskFault := fault.Detail{Field: "disk", Code: fault.Custom, Message: "999 bytes are free", Constraint: map[string]any{"current": int64(999), "limit": int64(1000)}}
	full := fault.Detail{Field: "maxSessions", Code: fault.Custom, Message: "4 of 4 browsers run or start", Constraint: map[string]any{"current": 4, "limit": 4}}
	for name, c := range map[string]struct {
		admission          Admission
		sample             Sample
		running, launching int
		reason, message    string
		details            []fault.Detail
	}{
		"below all limits":   {limits, calm, 3, 0, "", "", nil},
		"nothing is limited": {Admission{}, strained, 1000, 1000, "", "", nil},
		"all run":            {limits, calm, 4, 0, "max_sessions", "This worker is at its limit of 4 sessions (MAX_SESSIONS).", []fault.Detail{full}},
		"some start":         {limits, calm, 1, 3, "max_sessions", "This worker is at its limit of 4 sessions (MAX_SESSIONS).", []fault.Detail{full}},
		"memory":             {Admission{MaxMemoryPercent: 90}, strained, 0, 0, "memory", "This worker has too little free memory (MAX_USAGE_PERCENT 90).", []fault.Detail{memoryFault}},
		"cpu":                {Admission{MaxCPUPercent: 80}, strained, 0, 0, "cpu", "This worker's processors are too busy (MAX_USAGE_PERCENT 80).", []fault.Detail{cpuFault}},
		"disk":               {Admission{MinFreeDisk: 1000}, strained, 0, 0, "disk", "This worker has too little free disk space.", []fault.Detail{diskFault}},
		"descriptors free":   {Admission{MinDescriptors: 50}, Sample{FreeDescriptors: 100}, 9, 1, "", "", nil},
		"descriptors": {Admission{MinDescriptors: 50}, Sample{FreeDescriptors: 100}, 0, 2, "descriptors",
			"This worker has too few free file descriptors. Raise the limit of open files (ulimit -Hn, LimitNOFILE).", []fault.Detail{
				{Field: "descriptors", Code: fault.Custom, Message: "100 file descriptors are free", Constraint: map[string]any{"current": int64(100), "limit": int64(150)}},
			}},
		"all at once": {limits, strained, 4, 0, "max_sessions", "This worker is at its limit of 4 sessions (MAX_SESSIONS).",
			[]fault.Detail{full, memoryFault, cpuFault, diskFault}},
	} {
		t.Run(name, func(t *testing.T) {
			c.admission.Last = func() Sample { return c.sample }
			reached := c.admission.ReachedLimits(c.running, c.launching)
			if len(reached) != len(c.details) || len(reached) > 0 && (reached[0].Reason != c.reason || reached[0].Message != c.message) {
				t.Errorf("reached %+v, want %d limits, the first of them %q", reached, len(c.details), c.reason)
			}
			err := c.admission.Admit(c.running, c.launching)
			if c.reason == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !fault.Is(err, fault.Unavailable) {
				t.Fatalf("%v is not Unavailable", err)
			}
			got := fault.From(err)
			if diff := cmp.Diff(c.details, got.Details); diff != "" || got.Message != c.message || got.RetryAfter < time.Second {
				t.Errorf("%q, retry after %v\n%s", got.Message, got.RetryAfter, diff)
			}
		})
	}
}
