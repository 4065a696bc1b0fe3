package rest

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Machines serves the Machines operations.
type Machines struct {
	Machines machines
}

type machines interface {
	Machines(ctx context.Context, orgID uuid.UUID, f license.MachineFilter, r page.Request) (page.Page[license.Machine], error)
	RenameMachine(ctx context.Context, orgID uuid.UUID, machineID string, name *string) (license.Machine, error)
	DeleteMachine(ctx context.Context, orgID uuid.UUID, machineID string) error
}

// ListMachines implements the operation listMachines.
func (h Machines) ListMachines(ctx context.Context, r cloudapi.ListMachinesRequestObject) (cloudapi.ListMachinesResponseObject, error) {
	p := r.Params
	found, err := h.Machines.Machines(ctx, auth.CallerFrom(ctx).OrgID,
		license.MachineFilter{State: (*license.MachineState)(p.State), KeyID: p.KeyId, Search: p.Search},
		pageapi.Request(p.Page, p.Limit, string(valueOr(p.SortBy, "firstSeenAt")), p.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.MachineList{Items: []cloudapi.Machine{}, Pagination: pageapi.Pagination(found)}
	for _, m := range found.Items {
		list.Items = append(list.Items, machineToAPI(m))
	}
	return cloudapi.ListMachines200JSONResponse{Success: true, Data: list}, nil
}

// UpdateMachine implements the operation updateMachine.
func (h Machines) UpdateMachine(ctx context.Context, r cloudapi.UpdateMachineRequestObject) (cloudapi.UpdateMachineResponseObject, error) {
	m, err := h.Machines.RenameMachine(ctx, auth.CallerFrom(ctx).OrgID, r.MachineId, r.Body.Name)
	if err != nil {
		return nil, err
	}
	return cloudapi.UpdateMachine200JSONResponse{Success: true, Data: machineToAPI(m)}, nil
}

// DeleteMachine implements the operation deleteMachine.
func (h Machines) DeleteMachine(ctx context.Context, r cloudapi.DeleteMachineRequestObject) (cloudapi.DeleteMachineResponseObject, error) {
	if err := h.Machines.DeleteMachine(ctx, auth.CallerFrom(ctx).OrgID, r.MachineId); err != nil {
		return nil, err
	}
	return cloudapi.DeleteMachine200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

func machineToAPI(m license.Machine) cloudapi.Machine {
	return cloudapi.Machine{
		MachineId: m.MachineID, Name: m.Name, WorkerId: m.WorkerID, HostName: m.HostName, Version: m.Version, ContractVersion: m.Contract,
		PublicUrl: m.PublicURL, State: cloudapi.MachineState(m.State), Draining: m.Draining, Duplicate: m.Duplicate,
		Sessions: int32(m.Running), ReservedSlots: int32(m.Reserved), Capacity: int32OrNil(m.MaxSessions),
		KeyId: m.KeyID, KeyName: m.KeyName, FirstSeenAt: m.FirstSeenAt, LastHeartbeatAt: m.LastSeenAt,
	}
}

// machineReport converts what a heartbeat reports about its machine.
func machineReport(keyID uuid.UUID, m *cloudapi.MachineReport) *license.MachineReport {
	if m == nil {
		return nil
	}
	report := &license.MachineReport{
		KeyID: keyID, HostName: m.HostName, WorkerID: m.WorkerId, Version: m.Version, Contract: m.ContractVersion,
		PublicURL: m.PublicUrl, Draining: m.Draining,
	}
	if m.Capacity != nil {
		report.MaxSessions = new(int(*m.Capacity))
	}
	return report
}
