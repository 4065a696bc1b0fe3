package profile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// The audit actions.
const (
	created    = "profile.created"
	duplicated = "profile.duplicated"
	updated    = "profile.updated"
	deleted    = "profile.deleted"
)

// record records a change of the row, with its name and the given details.
func (s *Service) record(ctx context.Context, tx *sqlx.Tx, action string, r *row, more map[string]any) error {
	if s.Recorder == nil {
		return nil
	}
	details := map[string]any{"name": r.Name}
	maps.Copy(details, more)
	if err := s.Recorder.Record(ctx, tx, r.OrganizationID, action, r.ID.String(), details); err != nil {
		return fmt.Errorf("record the change of a profile: %w", err)
	}
	return nil
}

// copyOf returns the details with the ID of the original profile.
func copyOf(id uuid.UUID) map[string]any { return map[string]any{"sourceId": id} }

// changeOf returns the details with the names of the fields in a patch, without their
// values.
func changeOf(patch json.RawMessage) (map[string]any, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	return map[string]any{"fields": slices.Sorted(maps.Keys(changes))}, nil
}
