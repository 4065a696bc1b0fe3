package app

import (
	"fmt"
	"path/filepath"

	"github.com/browser-svc/svc/worker/internal/fleet"
)

// host is this machine: what it is, how it does, and what it may carry.
type host struct {
	*fleet.Sampler
	fleet.Admission
	facts fleet.Facts
}

// openHost begins to sample the machine. Close must follow.
func openHost(config Config, dir string, options fleet.Options) (*host, error) {
	facts, err := fleet.Host()
	if err != nil {
		return nil, fmt.Errorf("read what this machine is: %w", err)
	}
	options.Disk = filepath.Clean(dir)
	sampler, err := fleet.Start(options)
	if err != nil {
		return nil, err
	}
	return &host{Sampler: sampler, facts: facts, Admission: fleet.Admission{
		MaxSessions: config.MaxSessions, MaxMemoryPercent: config.MaxMemory, MaxCPUPercent: config.MaxCPU,
		MinFreeDisk: config.MinFreeDisk << 20, Last: sampler.Last,
	}}, nil
}

// Facts implements rest.Host.
func (h *host) Facts() fleet.Facts { return h.facts }

// Last implements rest.Host.
func (h *host) Last() fleet.Sample { return h.Sampler.Last() }

// oomKills counts what the kernel killed for want of memory; what can't be
// told counts as nothing.
func oomKills() uint64 {
	kills, _ := fleet.OutOfMemoryKills()
	return kills
}
