package rest

import (
	"maps"
	"slices"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
)

// WarmPoolState contains the warm browsers, the demand for them and the counts of warm and
// cold launches.
type WarmPoolState struct {
	Size         int // minimum number of warm browsers
	MaxSize      int
	Target       int
	TargetReason string
	Ready        []WarmBrowsers
	Demand       []WarmDemand
	Starting     int
	Memory       int64            // bytes
	Warm         int64            // launches that got a warm browser
	Cold         map[string]int64 // launches that did not, by reason
	Died         int64
	Stale        int64
}

// WarmKind is what warm browsers of a kind have in common.
type WarmKind struct {
	BrowserVersion int
	Engine         string
	Locale         string // empty for the default
	Timezone       string // empty for the machine's
	Headless       bool
}

// WarmBrowsers are the warm browsers of one kind.
type WarmBrowsers struct {
	WarmKind
	Count int
}

// WarmDemand is the recent demand for one kind of browsers.
type WarmDemand struct {
	WarmKind
	LaunchesPerMinute float64
	StartTime         time.Duration // 0: unknown
	Target            int
}

// maxDemand bounds the kinds of browsers in a response, as the API document does.
const maxDemand = 100

func (p WarmPoolState) toAPI() workerapi.FleetWarmPool {
	data := workerapi.FleetWarmPool{
		Size: int32(p.Size), MaxSize: int32(p.MaxSize), Target: int32(p.Target), TargetReason: workerapi.WarmTargetReason(p.TargetReason),
		Ready: []workerapi.WarmBrowsers{}, Demand: []workerapi.WarmDemand{}, Starting: int32(p.Starting), MemoryBytes: p.Memory,
		WarmLaunches: p.Warm, ColdLaunches: []workerapi.ColdLaunches{}, Died: p.Died, Stale: p.Stale,
	}
	for _, kind := range p.Ready {
		data.Ready = append(data.Ready, workerapi.WarmBrowsers{
			BrowserVersion: int32(kind.BrowserVersion), Engine: workerapi.BrowserEngine(kind.Engine), Locale: kind.Locale, TimezoneId: kind.Timezone,
			Headless: kind.Headless, Count: int32(kind.Count),
		})
	}
	for _, kind := range p.Demand[:min(len(p.Demand), maxDemand)] {
		data.Demand = append(data.Demand, kind.toAPI())
	}
	for _, reason := range slices.Sorted(maps.Keys(p.Cold)) {
		data.ColdLaunches = append(data.ColdLaunches, workerapi.ColdLaunches{Reason: reason, Count: p.Cold[reason]})
	}
	return data
}

func (d WarmDemand) toAPI() workerapi.WarmDemand {
	return workerapi.WarmDemand{
		BrowserVersion: int32(d.BrowserVersion), Engine: workerapi.BrowserEngine(d.Engine), Locale: d.Locale, TimezoneId: d.Timezone, Headless: d.Headless,
		LaunchesPerMinute: float32(d.LaunchesPerMinute), StartMs: nonZero(int32(d.StartTime.Milliseconds())), Target: int32(d.Target),
	}
}
