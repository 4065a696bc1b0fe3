package profile

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/fault"
)

// configs reads the configurations that an organization asks for at once by one
// statement.
type configs struct {
	once sync.Once
	*combine.Combiner[uuid.UUID, uuid.UUID, *foundConfig]
}

type foundConfig struct {
	Config
	err error // of this one alone
}

// Config returns what a worker needs to launch a profile, the proxy password
// included. Callers at the same time may share it: it must not be changed.
func (s *Service) Config(ctx context.Context, orgID, id uuid.UUID) (Config, error) {
	s.configs.once.Do(func() {
		s.configs.Combiner = combine.New(s.readConfigs, combine.Options[uuid.UUID, uuid.UUID]{})
	})
	found, err := s.configs.Do(ctx, orgID, id)
	if err != nil {
		return Config{}, err
	}
	if found == nil {
		return Config{}, fault.Missing("profile")
	}
	return found.Config, found.err
}

// configsSQL enters the organization and reads, in one round trip: every launch
// waits for it. OFFSET 0 keeps the order of the two.
const configsSQL = `
SELECT p.* FROM set_config('svc.organization', $1, true) AS entered CROSS JOIN LATERAL (
	SELECT ` + columns + ` FROM profiles
	WHERE organization_id = entered::uuid AND id = ANY ($2) AND browser_version IS NOT NULL OFFSET 0) AS p`

func (s *Service) readConfigs(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) ([]*foundConfig, error) {
	return combine.Lookup(ids, func(distinct []uuid.UUID) (map[uuid.UUID]*foundConfig, error) {
		var rows []row
		if err := s.DB.SelectContext(ctx, &rows, configsSQL, orgID, pq.Array(distinct)); err != nil {
			return nil, fmt.Errorf("read the configurations of profiles: %w", err)
		}
		known := make(map[uuid.UUID]*foundConfig, len(rows))
		for _, r := range rows {
			config, err := s.config(r)
			known[r.ID] = &foundConfig{config, err}
		}
		return known, nil
	})
}

func (s *Service) config(r row) (Config, error) {
	p, err := r.profile()
	if err != nil {
		return Config{}, err
	}
	password, err := r.open(s.Sealer)
	if err != nil {
		return Config{}, err
	}
	return Config{Profile: p, ProxyPassword: password}, nil
}
