package rest

import (
	"context"
	"errors"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/host/fleet"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Host is the sampled machine.
type Host interface {
	Facts() fleet.Facts
	Last() fleet.Sample
}

// Identity describes this worker.
type Identity struct {
	WorkerID     string // empty if not configured
	MachineID    string
	StartedAt    time.Time
	MaxSessions  int // 0 for no limit
	HasKey       bool
	LastAnswerAt func() time.Time // when the cloud last accepted the key; zero if never
	FullAt       func() time.Time // when the cloud said that all slots are in use; zero if its last verdict did not
	License      func() string    // one of the states in the API document

	CloudContract func() CloudContract

	Reports func() (waiting, rejected int) // numbers of pending and of rejected reports
}

// CloudContract is the compatibility of the cloud's contract version with this
// worker.
type CloudContract struct {
	Expected string // the version that this worker implements
	Actual   string // the version of the cloud; empty if unknown
	Fit      string // one of the values in the API document
}

func (c CloudContract) toAPI() workerapi.CloudContract {
	return workerapi.CloudContract{Expected: c.Expected, Actual: nonZero(c.Actual), Fit: workerapi.CloudContractFit(c.Fit)}
}

// GetFleetStatus returns the full state of this machine for a cluster manager.
func (s *Server) GetFleetStatus(ctx context.Context, _ workerapi.GetFleetStatusRequestObject) (workerapi.GetFleetStatusResponseObject, error) {
	data, err := s.FleetStatus(ctx)
	if err != nil {
		return nil, err
	}
	return workerapi.GetFleetStatus200JSONResponse{Success: true, Data: data}, nil
}

// FleetStatus returns the full state of this machine.
func (s *Server) FleetStatus(ctx context.Context) (workerapi.FleetStatus, error) {
	waiting, rejected := s.Identity.Reports()
	installed, err := s.Builds.Find(ctx)
	if err != nil && !errors.Is(err, builds.ErrUnusablePath) { // its reason is in capacity
		return workerapi.FleetStatus{}, err
	}
	facts, sample, live := s.Host.Facts(), s.Host.Last(), s.liveStatus(ctx)
	data := workerapi.FleetStatus{
		WorkerId: nonZero(s.Identity.WorkerID), MachineId: s.Identity.MachineID, Version: s.Version, ContractVersion: s.ContractVersion,
		StartedAt: s.Identity.StartedAt, PublicUrl: s.Links.Address.String(), Draining: live.Draining,
		Host: workerapi.FleetHost{
			Hostname: facts.Hostname, Os: facts.OS, Arch: facts.Arch, Kernel: facts.Kernel, Cpus: float32(facts.CPUs),
			MemoryBytes: int64(facts.MemoryBytes),
		},
		Capacity: workerapi.FleetCapacity{
			MaxSessions: live.MaxSessions, Running: live.ActiveSessions, Launching: live.Launching, IsAvailable: live.IsAvailable, Reason: live.Reason,
		},
		Pressure: workerapi.FleetPressure{
			At: sample.At, CpuPercent: percent(sample.CPUPercent), MemoryPercent: percent(sample.MemoryPercent), MemoryUsedBytes: sample.MemoryUsedBytes,
			MemoryLimitBytes: sample.MemoryLimitBytes, Load1: sample.Load1, DiskFreeBytes: sample.DiskFreeBytes,
		},
		Isolation: isolationToAPI(s.Isolation()), WarmPool: s.WarmPool().toAPI(),
		Browsers: buildsToAPI(installed), Sessions: []workerapi.FleetSession{},
		License: workerapi.FleetLicense{
			HasKey: s.Identity.HasKey, State: workerapi.LicenseState(s.Identity.License()), LastAnswerAt: nonZero(s.Identity.LastAnswerAt()), CloudContract: s.Identity.CloudContract().toAPI(),
			ReportsWaiting: int32(waiting), ReportsRejected: int32(rejected),
		},
	}
	sessions, _ := s.Sessions.Live()
	for _, session := range sessions {
		if running, ok := s.Launches.Running(session.LaunchID); ok {
			data.Sessions = append(data.Sessions, fleetSession(session, running))
		}
	}
	return data, nil
}

func fleetSession(session session.Session, running launch.Running) workerapi.FleetSession {
	return workerapi.FleetSession{
		Id: session.ID, LaunchId: session.LaunchID, ProfileId: session.ProfileID, ProfileName: session.ProfileName,
		BrowserVersion: int32(session.BrowserVersion),
		Headless:       session.Headless, StartedAt: session.StartedAt,
		LastActivityAt: running.Activity.Last(), Clients: int32(running.Activity.Clients()),
	}
}

// GetFleetLive returns the load of this machine.
func (s *Server) GetFleetLive(ctx context.Context, _ workerapi.GetFleetLiveRequestObject) (workerapi.GetFleetLiveResponseObject, error) {
	return workerapi.GetFleetLive200JSONResponse{Success: true, Data: s.liveStatus(ctx)}, nil
}

// DrainWorker takes this worker out of service.
func (s *Server) DrainWorker(ctx context.Context, _ workerapi.DrainWorkerRequestObject) (workerapi.DrainWorkerResponseObject, error) {
	s.Launches.Drain()
	return workerapi.DrainWorker200JSONResponse{Success: true, Data: s.liveStatus(ctx)}, nil
}

// ResumeWorker returns this worker to service. If the worker is shutting down,
// the answer still says draining.
func (s *Server) ResumeWorker(ctx context.Context, _ workerapi.ResumeWorkerRequestObject) (workerapi.ResumeWorkerResponseObject, error) {
	s.Launches.Resume()
	return workerapi.ResumeWorker200JSONResponse{Success: true, Data: s.liveStatus(ctx)}, nil
}

func (s *Server) liveStatus(ctx context.Context) workerapi.FleetLive {
	running, launching := s.Launches.Counts()
	sample, reasons, reason := s.Host.Last(), s.Readiness.Reasons(ctx), ""
	if len(reasons) > 0 {
		reason = reasons[0].Code
	}
	return workerapi.FleetLive{
		CpuPercent: percent(sample.CPUPercent), MemoryPercent: percent(sample.MemoryPercent), MemoryUsedBytes: sample.MemoryUsedBytes,
		ActiveSessions: int32(running), Launching: int32(launching), MaxSessions: nonZero(int32(s.Identity.MaxSessions)),
		IsAvailable: reason == "", Reason: (*workerapi.UnavailableReason)(nonZero(reason)), Draining: reason == httpd.Draining,
		LicenseFullAt: nonZero(s.Identity.FullAt()),
	}
}

// percent limits rounding errors to the range 0 to 100.
func percent(value float64) workerapi.Percent { return workerapi.Percent(min(max(value, 0), 100)) }
