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

// What is recorded.
const (
	created    = "profile.created"
	duplicated = "profile.duplicated"
	updated    = "profile.updated"
	deleted    = "profile.deleted"
)

// record tells the Recorder of a change of the row, with its name and what more
// there is to say.
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

// copyOf says what a profile was made from.
func copyOf(id uuid.UUID) map[string]any { return map[string]any{"sourceId": id} }

// changeOf says which fields a patch names; never what they hold.
func changeOf(patch json.RawMessage) (map[string]any, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	return map[string]any{"fields": slices.Sorted(maps.Keys(changes))}, nil
}
