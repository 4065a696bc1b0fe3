package license

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// MachineReport is what a worker reports about itself and its host.
type MachineReport struct {
	KeyID       uuid.UUID // of the heartbeat
	HostName    string
	WorkerID    *string // nil if the operator set none
	Version     string
	Contract    *string // version of the API document of the worker
	PublicURL   *string
	MaxSessions *int // nil for no limit
	Draining    bool
}

// MachineState is the state of a machine.
type MachineState string

// Machine is a worker host. The fields of the report are nil if the worker never sent
// one.
type Machine struct {
	MachineID   string       `db:"id"`
	Name        *string      `db:"name"` // nil if no person gave the machine a name
	HostName    *string      `db:"host_name"`
	WorkerID    *string      `db:"worker_id"`
	Version     *string      `db:"version"`
	Contract    *string      `db:"contract"`
	PublicURL   *string      `db:"public_url"`
	State       MachineState `db:"state"` // online, draining or offline
	Draining    bool         `db:"draining"`
	Duplicate   bool         `db:"duplicate"` // several running workers use the machine id
	Running     int          `db:"running"`   // sessions
	Reserved    int          `db:"reserved"`  // slots
	MaxSessions *int         `db:"max_sessions"`
	KeyID       *uuid.UUID   `db:"key_id"`
	KeyName     *string      `db:"key_name"`
	FirstSeenAt time.Time    `db:"first_seen_at"`
	LastSeenAt  time.Time    `db:"last_seen_at"`
}

// MachineFilter filters machines; nil fields do not filter.
type MachineFilter struct {
	State  *MachineState
	KeyID  *uuid.UUID
	Search *string // in the machine id, the host name or the name, ignoring case
}

// machineSortColumns maps sortBy of the API to columns.
var machineSortColumns = map[string]string{
	"firstSeenAt":     "m.first_seen_at",
	"lastHeartbeatAt": "m.heartbeat_at",
	"machineId":       "m.machine_id",
	"hostName":        "i.host_name",
}

// recordMachineSQL stores the report of a machine. It writes nothing if the report is
// the same as the last one.
const recordMachineSQL = `
INSERT INTO license_machine_info AS i (organization_id, machine_id, key_id, host_name, worker_id, version, contract, public_url,
	max_sessions, draining, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp())
ON CONFLICT (organization_id, machine_id) DO UPDATE
SET key_id = excluded.key_id, host_name = excluded.host_name, worker_id = excluded.worker_id, version = excluded.version,
	contract = excluded.contract, public_url = excluded.public_url, max_sessions = excluded.max_sessions,
	draining = excluded.draining, changed_at = excluded.changed_at
WHERE (i.key_id, i.host_name, i.worker_id, i.version, i.contract, i.public_url, i.max_sessions, i.draining)
	IS DISTINCT FROM (excluded.key_id, excluded.host_name, excluded.worker_id, excluded.version, excluded.contract,
		excluded.public_url, excluded.max_sessions, excluded.draining)`

// recordMachine stores what a heartbeat reports about its machine. An error is only
// logged: the report is for display, and must not keep the sessions from being
// refreshed.
func (s *Service) recordMachine(ctx context.Context, report HeartbeatReport) {
	m := report.Machine
	if m == nil {
		return
	}
	err := s.db.run(ctx, report.OrgID, func() error {
		_, err := s.stmts.recordMachine.ExecContext(ctx, report.OrgID, report.MachineID,
			m.KeyID, m.HostName, m.WorkerID, m.Version, m.Contract, m.PublicURL, m.MaxSessions, m.Draining)
		return err
	})
	if err != nil {
		s.logger.WarnContext(ctx, "failed to store the report of a machine", "error", err, "org", report.OrgID, "machine", report.MachineID)
	}
}

// machineTables are the machines (m), their reports (i) and the periods (p) after which
// a machine is offline and a superseded boot has ended, $2 and $3.
const machineTables = `
FROM (SELECT make_interval(secs => $2) AS offline_after, make_interval(secs => $3) AS heartbeat_ttl) p
CROSS JOIN license_machines m LEFT JOIN license_machine_info i USING (organization_id, machine_id)`

const machineState = `CASE WHEN m.heartbeat_at <= now() - p.offline_after THEN 'offline'
	WHEN i.draining THEN 'draining' ELSE 'online' END`

// machinesSQL reads machines of organization $1. PostgreSQL computes the subqueries for the rows of the
// page only. Duplicates are those of duplicatesSQL.
const machinesSQL = `
SELECT m.machine_id AS id, m.name, i.host_name, i.worker_id, i.version, i.contract, i.public_url, ` + machineState + ` AS state, coalesce(i.draining, false) AS draining,
	i.max_sessions, i.key_id, m.first_seen_at, m.heartbeat_at AS last_seen_at,
	(SELECT k.name FROM api_keys k WHERE k.organization_id = $1 AND k.id = i.key_id) AS key_name,
	(SELECT count(*) FROM license_slots s WHERE s.organization_id = $1 AND s.machine_id = m.machine_id AND s.released_at IS NULL AND s.state = 'running') AS running,
	(SELECT count(*) FROM license_slots s WHERE s.organization_id = $1 AND s.machine_id = m.machine_id AND s.released_at IS NULL AND s.state = 'reserved') AS reserved,
	m.heartbeat_at > now() - p.heartbeat_ttl AND EXISTS (SELECT FROM license_superseded_boots l
		WHERE l.organization_id = $1 AND l.machine_id = m.machine_id AND l.boot_id <> m.boot_id AND l.alive_since IS NOT NULL
			AND l.heartbeat_at > now() - p.heartbeat_ttl) AS duplicate` + machineTables

// likeEscaper escapes a text for use in LIKE.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func (f MachineFilter) where(orgID uuid.UUID) *pg.Where {
	w := pg.NewWhere("m.organization_id = $1", orgID, longestPause.Seconds(), HeartbeatTTL.Seconds())
	pg.And(w, machineState+" = ?", f.State)
	pg.And(w, "i.key_id = ?", f.KeyID)
	if f.Search != nil {
		pg.And(w, "(m.machine_id ILIKE ? OR i.host_name ILIKE ? OR m.name ILIKE ?)", new("%"+likeEscaper.Replace(*f.Search)+"%"))
	}
	return w
}

// Machines returns a page of the machines of the organization.
func (s *Service) Machines(ctx context.Context, orgID uuid.UUID, f MachineFilter, r page.Request) (page.Page[Machine], error) {
	result := page.Page[Machine]{Request: r, Items: []Machine{}}
	where, args := f.where(orgID).SQL()
	err := s.db.snapshot(ctx, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*)`+machineTables+where, args...); err != nil {
			return fmt.Errorf("count the machines: %w", err)
		}
		query := fmt.Sprintf("%s%s%s LIMIT %d OFFSET %d", machinesSQL, where, r.OrderBy(machineSortColumns), r.Limit, r.Offset())
		if err := tx.SelectContext(ctx, &result.Items, query, args...); err != nil {
			return fmt.Errorf("list the machines: %w", err)
		}
		return nil
	})
	for i := range result.Items {
		result.Items[i].inUTC()
	}
	return result, err
}

// Machine returns a machine of the organization; nil if it does not exist or was
// deleted.
func (s *Service) Machine(ctx context.Context, orgID uuid.UUID, machineID string) (*Machine, error) {
	w := MachineFilter{}.where(orgID)
	pg.And(w, "m.machine_id = ?", &machineID)
	where, args := w.SQL()
	var found []Machine
	err := s.db.run(ctx, orgID, func() error { return s.db.db.SelectContext(ctx, &found, machinesSQL+where, args...) })
	if err != nil {
		return nil, fmt.Errorf("read a machine: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	found[0].inUTC()
	return &found[0], nil
}

// RenameMachine sets the name of a machine, or removes it with nil. Error: NotFound.
func (s *Service) RenameMachine(ctx context.Context, orgID uuid.UUID, machineID string, name *string) (Machine, error) {
	err := s.db.run(ctx, orgID, func() error {
		_, err := s.db.db.ExecContext(ctx, `UPDATE license_machines SET name = $3 WHERE organization_id = $1 AND machine_id = $2`, orgID, machineID, name)
		return err
	})
	if err != nil {
		return Machine{}, fmt.Errorf("rename a machine: %w", err)
	}
	m, err := s.Machine(ctx, orgID, machineID)
	if err == nil && m == nil {
		err = fault.Missing("machine")
	}
	if err != nil {
		return Machine{}, err
	}
	return *m, nil
}

// deleteMachineSQL deletes a machine that is offline and has no slots.
const deleteMachineSQL = `
DELETE FROM license_machines m WHERE organization_id = $1 AND machine_id = $2 AND heartbeat_at <= now() - make_interval(secs => $3)
	AND NOT EXISTS (SELECT FROM license_slots s WHERE s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL)`

// DeleteMachine deletes an offline machine. Errors: NotFound; Conflict if the machine is
// not offline or has slots.
func (s *Service) DeleteMachine(ctx context.Context, orgID uuid.UUID, machineID string) error {
	var deleted int64
	err := s.db.run(ctx, orgID, func() error {
		result, err := s.db.db.ExecContext(ctx, deleteMachineSQL, orgID, machineID, longestPause.Seconds())
		if err == nil {
			deleted, err = result.RowsAffected()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete a machine: %w", err)
	}
	if deleted > 0 {
		return nil
	}
	switch m, err := s.Machine(ctx, orgID, machineID); {
	case err != nil:
		return err
	case m == nil:
		return fault.Missing("machine")
	}
	return fault.New(fault.Conflict, "The machine is not offline or still has slots. Stop its worker, wait two minutes and try again.")
}

func (m *Machine) inUTC() { m.FirstSeenAt, m.LastSeenAt = m.FirstSeenAt.UTC(), m.LastSeenAt.UTC() }
