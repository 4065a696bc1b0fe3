package rest

import (
	"maps"
	"slices"

	"github.com/browser-svc/svc/gen/workerapi"
)

// WarmPoolState contains the warm browsers and the counts of warm and cold launches.
type WarmPoolState struct {
	Size     int // maximum number of warm browsers
	Ready    []WarmBrowsers
	Starting int
	Memory   int64            // bytes
	Warm     int64            // launches that got a warm browser
	Cold     map[string]int64 // launches that did not, by reason
	Died     int64
	Stale    int64
}

// WarmBrowsers are the warm browsers of one kind.
type WarmBrowsers struct {
	BrowserVersion int
	Engine         string
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
			BrowserVersion: int32(kind.BrowserVersion), Engine: workerapi.BrowserEngine(kind.Engine), Locale: kind.Locale, Headless: kind.Headless, Count: int32(kind.Count),
		})
	}
	for _, reason := range slices.Sorted(maps.Keys(p.Cold)) {
		data.ColdLaunches = append(data.ColdLaunches, workerapi.ColdLaunches{Reason: reason, Count: p.Cold[reason]})
	}
	return data
}
