package activity

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Network is what the browser of a session has transferred and was denied.
type Network struct {
	Connections, BytesSent, BytesReceived, Denied int64
	Hosts                                         Hosts
}

// Hosts are the hosts with the most bytes, and the sum of the others.
type Hosts []Host

// Host is the part of one host.
type Host struct {
	Host          string   `json:"host"`
	Connections   int64    `json:"connections"`
	BytesSent     int64    `json:"bytesSent"`
	BytesReceived int64    `json:"bytesReceived"`
	Denied        []Denial `json:"denied"`
	Proxy         *string  `json:"proxy"` // host:port; nil: direct
}

// Denial counts the requests that a rule denied.
type Denial struct {
	Level string `json:"level"`
	Rule  string `json:"rule"`
	Count int64  `json:"count"`
}

// Value implements driver.Valuer.
func (h Hosts) Value() (driver.Value, error) {
	raw, err := json.Marshal(h)
	return string(raw), err
}

// Scan implements sql.Scanner.
func (h *Hosts) Scan(value any) error {
	switch raw := value.(type) {
	case nil:
		return nil
	case []byte:
		return json.Unmarshal(raw, h)
	}
	return fmt.Errorf("hosts are a %T", value)
}

const setNetworkSQL = `
UPDATE activity_sessions SET connections = $3, bytes_sent = $4, bytes_received = $5, denied = $6, hosts = $7
WHERE organization_id = $1 AND id = $2`

// SetNetwork stores what was reported with the end of a session. An unknown session is
// ignored: its launch failed.
func (f *Feed) SetNetwork(ctx context.Context, orgID, sessionID uuid.UUID, n Network) error {
	return pg.InOrg(ctx, f.DB, orgID, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, setNetworkSQL, orgID, sessionID, n.Connections, n.BytesSent, n.BytesReceived, n.Denied, n.Hosts)
		if err != nil {
			return fmt.Errorf("write the traffic of a session: %w", err)
		}
		return nil
	})
}

// Usage sums sessions.
type Usage struct {
	BytesSent     int64   `db:"bytes_sent"`
	BytesReceived int64   `db:"bytes_received"`
	BrowserHours  float64 `db:"browser_hours"`
}

// maxUsageDays bounds UsageByDay.
const maxUsageDays = 10_000

// UsageDay sums the sessions of a profile that a key started on a day.
type UsageDay struct {
	Day         string     `db:"day"`        // 2026-11-21, in UTC
	ProfileID   *uuid.UUID `db:"profile_id"` // nil for profiles that do not exist any more
	ProfileName string     `db:"profile_name"`
	KeyID       *uuid.UUID `db:"key_id"`
	KeyName     *string    `db:"key_name"`
	Sessions    int64      `db:"sessions"`
	Denied      int64      `db:"denied"`
	Usage
}

const usageByDaySQL = `
SELECT to_char(s.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, p.id AS profile_id, s.profile_name, s.key_id, k.name AS key_name,
	count(*) AS sessions, COALESCE(sum(s.denied), 0)::bigint AS denied, ` + usageColumns + `
FROM activity_sessions s
LEFT JOIN profiles p ON p.organization_id = $1 AND p.id = s.profile_id AND NOT p.ephemeral
LEFT JOIN api_keys k ON k.organization_id = $1 AND k.id = s.key_id
WHERE s.organization_id = $1 AND s.started_at >= $2 AND s.started_at < $3
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1 DESC, COALESCE(sum(s.bytes_sent + s.bytes_received), 0) DESC, 3, 5, 2, 4 LIMIT $5`

// UsageByDay returns the sums of the sessions that started from one time to another, the
// latest day first. It returns Validation for too many.
func (f *Feed) UsageByDay(ctx context.Context, orgID uuid.UUID, start, end time.Time) ([]UsageDay, error) {
	days := []UsageDay{}
	err := pg.InOrg(ctx, f.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.SelectContext(ctx, &days, usageByDaySQL, orgID, start, end, f.Clock.Now(), maxUsageDays+1); err != nil {
			return fmt.Errorf("sum the sessions by day: %w", err)
		}
		return nil
	})
	if len(days) > maxUsageDays {
		return nil, fault.Field("from", fmt.Sprintf("is too early: there would be more than %d items", maxUsageDays))
	}
	return days, err
}

// usageColumns are those of Usage.
const usageColumns = `COALESCE(sum(s.bytes_sent), 0)::bigint AS bytes_sent, COALESCE(sum(s.bytes_received), 0)::bigint AS bytes_received,
	COALESCE(sum(GREATEST(extract(epoch FROM COALESCE(s.ended_at, $4) - s.started_at), 0)), 0)::float8 / 3600 AS browser_hours`

// usageSQL reads a range of an index by start.
const usageSQL = `
SELECT ` + usageColumns + `
FROM activity_sessions s WHERE s.organization_id = $1 AND s.started_at >= $2 AND s.started_at < $3`

// Usage returns the sums of the sessions of the organization that started from one time to
// another. Running sessions count until now.
func (f *Feed) Usage(ctx context.Context, orgID uuid.UUID, start, end time.Time) (Usage, error) {
	var usage Usage
	err := pg.InOrg(ctx, f.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &usage, usageSQL, orgID, start, end, f.Clock.Now()); err != nil {
			return fmt.Errorf("sum the sessions: %w", err)
		}
		return nil
	})
	return usage, err
}
