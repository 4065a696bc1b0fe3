package rest

import (
	"maps"
	"slices"

	"github.com/browser-svc/svc/gen/workerapi"
)

// WarmPoolState is what is kept ready, and how launches got their browsers so far.
type WarmPoolState struct {
	Size     int // the most that are kept ready
	Ready    []WarmBrowsers
	Starting int
	Memory   int64            // bytes
	Warm     int64            // launches that got one that was ready
	Cold     map[string]int64 // those that did not, by reason
	Died     int64
	Stale    int64
}

// WarmBrowsers are the browsers of one kind that are ready.
type WarmBrowsers struct {
	BrowserVersion int
	Locale         string // empty for the default
	Headless       bool
	Count          int
}

func (p WarmPoolState) toAPI() workerapi.FleetWarmPool {
	data := workerapi.FleetWarmPool{
		Size: int32(p.Size), Ready: []workerapi.WarmBrowsers{}, Starting: int32(p.Starting), MemoryBytes: p.Memory,
		WarmLaunches: p.Warm, ColdLaunches: []workerapi.ColdLaunches{}, Died: p.Died, Stale: p.Stale,
	}
	for _, kind := range p.Ready {
		data.Ready = append(data.Ready, workerapi.WarmBrowsers{
			BrowserVersion: int32(kind.BrowserVersion), Locale: kind.Locale, Headless: kind.Headless, Count: int32(kind.Count),
		})
	}
	for _, reason := range slices.Sorted(maps.Keys(p.Cold)) {
		data.ColdLaunches = append(data.ColdLaunches, workerapi.ColdLaunches{Reason: reason, Count: p.Cold[reason]})
	}
	return data
}
