package app

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/license"
)

// sessionObserver informs the profiles and the activity feed about started and
// ended sessions.
type sessionObserver struct {
	profiles *profile.Service
	feed     *activity.Feed
}

// SessionsStarted implements license.Observer.
func (o sessionObserver) SessionsStarted(ctx context.Context, tx *sqlx.Tx, started []license.Started) error {
	starts, uses := []activity.Start{}, []profile.Use{}
	for orgID, group := range groupByOrganization(started, func(s license.Started) uuid.UUID { return s.OrgID }) {
		names, err := o.profileNames(ctx, tx, orgID, group)
		if err != nil {
			return err
		}
		var again []uuid.UUID
		for _, s := range group {
			if s.Resumed {
				again = append(again, s.ProfileID)
			}
			version := int32(s.BrowserVersion)
			starts = append(starts, activity.Start{
				SessionID: s.SessionID, OrganizationID: orgID, ProfileID: s.ProfileID, ProfileName: names[s.ProfileID],
				MachineID: s.MachineID, KeyID: s.KeyID, LaunchID: s.LaunchID, BrowserVersion: version, StartedAt: s.StartedAt,
				Recording: (*activity.Recording)(s.Recording), Labels: labelsOf(s.Labels),
			})
			uses = append(uses, profile.Use{OrganizationID: orgID, ProfileID: s.ProfileID, BrowserVersion: version, At: s.StartedAt})
		}
		if len(again) > 0 {
			if err := o.profiles.ResumeEphemeral(ctx, tx, orgID, again); err != nil {
				return err
			}
		}
	}
	if err := o.feed.Started(ctx, tx, starts); err != nil {
		return err
	}
	return o.profiles.TouchUsed(ctx, tx, uses)
}

func labelsOf(labels *license.Labels) *activity.Labels {
	if labels == nil {
		return nil
	}
	return &activity.Labels{Name: labels.Name, Metadata: labels.Metadata}
}

// SessionsEnded implements license.Observer.
func (o sessionObserver) SessionsEnded(ctx context.Context, tx *sqlx.Tx, ended []license.Ended) error {
	ends := []activity.End{}
	for orgID, group := range groupByOrganization(ended, func(e license.Ended) uuid.UUID { return e.OrgID }) {
		var over, givenUp []uuid.UUID
		for _, e := range group {
			ends = append(ends, activity.End{
				SessionID: e.SessionID, OrganizationID: orgID, Status: string(e.Status), EndReason: string(e.EndReason), EndedAt: e.EndedAt,
			})
			switch {
			case e.ProfileID == nil:
			case e.GivenUp:
				givenUp = append(givenUp, *e.ProfileID)
			default:
				over = append(over, *e.ProfileID)
			}
		}
		if len(over) > 0 {
			if err := o.profiles.RemoveEphemeral(ctx, tx, orgID, over); err != nil {
				return err
			}
		}
		if len(givenUp) > 0 {
			if err := o.profiles.AbandonEphemeral(ctx, tx, orgID, givenUp); err != nil {
				return err
			}
		}
	}
	return o.feed.Ended(ctx, tx, ends)
}

func (o sessionObserver) profileNames(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, started []license.Started) (map[uuid.UUID]string, error) {
	ids := make([]uuid.UUID, len(started))
	for i, s := range started {
		ids[i] = s.ProfileID
	}
	return profile.Names(ctx, tx, orgID, ids)
}

func groupByOrganization[T any](all []T, key func(T) uuid.UUID) map[uuid.UUID][]T {
	grouped := map[uuid.UUID][]T{}
	for _, item := range all {
		grouped[key(item)] = append(grouped[key(item)], item)
	}
	return grouped
}
