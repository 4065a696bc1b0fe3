package app

import (
	"fmt"
	"path/filepath"

	"github.com/browser-svc/svc/worker/internal/host/fleet"
)

// host describes this machine: its facts, its load and its capacity.
type host struct {
	*fleet.Sampler
	fleet.Admission
	facts fleet.Facts
}

// openHost starts sampling the machine. The caller must call Close.
func openHost(config Config, dir string, options fleet.Options) (*host, error) {
	facts, err := fleet.Host()
	if err != nil {
		return nil, fmt.Errorf("read the facts of this machine: %w", err)
	}
	options.Disk = filepath.Clean(dir)
	sampler, err := fleet.Start(options)
	if err != nil {
		return nil, err
	}
	memory, cpu := pair(config.MaxUsage)
	return &host{Sampler: sampler, facts: facts, Admission: fleet.Admission{
		MaxSessions: config.MaxSessions, MaxMemoryPercent: memory, MaxCPUPercent: cpu,
		MinFreeDisk: minFreeDisk, MinDescriptors: descriptorsPerLaunch, Last: sampler.Last,
	}}, nil
}

// Facts implements rest.Host.
func (h *host) Facts() fleet.Facts { return h.facts }

// Last implements rest.Host.
func (h *host) Last() fleet.Sample { return h.Sampler.Last() }

// oomKills returns the kernel's count of out-of-memory kills, 0 if it is not
// available.
func oomKills() uint64 {
	kills, _ := fleet.OutOfMemoryKills()
	return kills
}
