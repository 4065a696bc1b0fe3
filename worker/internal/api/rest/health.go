package rest

import (
	"context"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// GetWorkerHealth returns the health of the worker.
func (s *Server) GetWorkerHealth(ctx context.Context, _ workerapi.GetWorkerHealthRequestObject) (workerapi.GetWorkerHealthResponseObject, error) {
	status := workerapi.WorkerHealthStatusOk
	if s.liveStatus(ctx).Draining {
		status = workerapi.WorkerHealthStatusDraining
	}
	return workerapi.GetWorkerHealth200JSONResponse{Success: true, Data: workerapi.WorkerHealth{
		Status: status, Version: s.Version, ContractVersion: s.ContractVersion, Isolation: isolationSummary(s.Isolation()),
		License:       workerapi.LicenseState(s.Identity.License()),
		CloudContract: s.Identity.CloudContract().toAPI(), MissingScripts: scriptsToAPI(s.MissingScripts()),
	}}, nil
}

// scriptsToAPI returns nil for nil.
func scriptsToAPI(scripts *[]string) *[]workerapi.WritingScript {
	if scripts == nil {
		return nil
	}
	list := []workerapi.WritingScript{}
	for _, script := range *scripts {
		list = append(list, workerapi.WritingScript(script))
	}
	return &list
}

// CheckWorkerLiveness answers while the program serves requests.
func (s *Server) CheckWorkerLiveness(context.Context, workerapi.CheckWorkerLivenessRequestObject) (workerapi.CheckWorkerLivenessResponseObject, error) {
	return workerapi.CheckWorkerLiveness200JSONResponse{Success: true, Data: sharedapi.Liveness{Status: sharedapi.Alive}}, nil
}

// CheckWorkerReadiness returns 200 if the worker would accept a launch,
// otherwise 503 with the reasons.
func (s *Server) CheckWorkerReadiness(ctx context.Context, _ workerapi.CheckWorkerReadinessRequestObject) (workerapi.CheckWorkerReadinessResponseObject, error) {
	if err := s.Readiness.Err(ctx); err != nil {
		return nil, err
	}
	return workerapi.CheckWorkerReadiness200JSONResponse{Success: true, Data: sharedapi.Readiness{Status: sharedapi.Ready}}, nil
}
