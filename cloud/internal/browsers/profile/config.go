package profile

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
)

// configs batches concurrent reads of an organization's configurations into one
// statement.
type configs struct {
	once sync.Once
	*combine.Combiner[uuid.UUID, uuid.UUID, ConfigResult]
}

// ConfigResult is a configuration, or the error of reading it.
type ConfigResult struct {
	Config
	Err error
}

// Config returns what a worker needs to launch a profile, including its secrets.
// Concurrent callers may share the result, so it must not be modified.
func (s *Service) Config(ctx context.Context, orgID, id uuid.UUID) (Config, error) {
	s.configs.once.Do(func() {
		s.configs.Combiner = combine.New(s.readConfigs, combine.Options[uuid.UUID, uuid.UUID]{Name: "read configurations"})
	})
	found, err := s.configs.Do(ctx, orgID, id)
	if err != nil {
		return Config{}, err
	}
	return found.Config, found.Err
}

func (s *Service) readConfigs(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) ([]ConfigResult, error) {
	return combine.Lookup(ids, func(distinct []uuid.UUID) (map[uuid.UUID]ConfigResult, error) { return s.Configs(ctx, orgID, distinct) })
}

// configRow is a profile with the network rules of its organization.
type configRow struct {
	row
	Network *netrules.Rules `db:"organization_network"`
}

// configsSQL sets the organization and reads the configurations in one round trip,
// because every launch waits for it. OFFSET 0 ensures the order of the two steps.
const configsSQL = `
SELECT p.* FROM (SELECT set_config('svc.organization', $1, true) AS id) AS entered
CROSS JOIN LATERAL (
	SELECT ` + columns + `, (SELECT network FROM organizations WHERE id = entered.id::uuid) AS organization_network FROM profiles
	WHERE organization_id = entered.id::uuid AND id = ANY ($2) AND browser_version IS NOT NULL OFFSET 0) AS p`

// Configs returns the configurations of several profiles, like Config.
func (s *Service) Configs(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]ConfigResult, error) {
	var rows []configRow
	if err := cmp.Or(s.ConfigDB, s.DB).SelectContext(ctx, &rows, configsSQL, orgID, pq.Array(ids)); err != nil {
		return nil, fmt.Errorf("read the configurations of profiles: %w", err)
	}
	found := make(map[uuid.UUID]ConfigResult, len(ids))
	for _, r := range rows {
		config, err := s.config(r)
		found[r.ID] = ConfigResult{config, err}
	}
	for _, id := range ids {
		if _, ok := found[id]; !ok {
			found[id] = ConfigResult{Err: fault.Missing("profile")}
		}
	}
	return found, nil
}

// knownSQL sets the organization and reads, like configsSQL.
const knownSQL = `
SELECT p.id FROM (SELECT set_config('svc.organization', $1, true) AS id) AS entered
CROSS JOIN LATERAL (SELECT id FROM profiles WHERE organization_id = entered.id::uuid AND id = ANY ($2) OFFSET 0) AS p`

// Known returns the IDs that belong to profiles of the organization.
func (s *Service) Known(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	var found []uuid.UUID
	if err := cmp.Or(s.ConfigDB, s.DB).SelectContext(ctx, &found, knownSQL, orgID, pq.Array(ids)); err != nil {
		return nil, fmt.Errorf("find profiles: %w", err)
	}
	return found, nil
}

func (s *Service) config(r configRow) (Config, error) {
	p, err := r.profile()
	if err != nil {
		return Config{}, err
	}
	password, err := r.decryptPassword(s.Sealer)
	if err != nil {
		return Config{}, err
	}
	clients, err := r.decryptCertificates(s.Sealer)
	if err != nil {
		return Config{}, err
	}
	return Config{Profile: p, ProxyPassword: password, ClientKeys: clients, OrganizationNetwork: r.Network}, nil
}
