package webhook

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// changes makes one change of each type of event, in the order of Types.
func (f *fixture) changes(org uuid.UUID) {
	f.t.Helper()
	session := f.startSession(org)
	f.endSession(session)
	f.exec(`INSERT INTO license_events (organization_id, kind, reason, count, machine_id, in_use, max_slots) VALUES ($1, 'refused', 'concurrency_limit', 3, 'worker-1', 5, 5)`, org)
	f.exec(`INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_at) VALUES (gen_random_uuid(), $1, 'fleet', sha256($2), 'svc_abcd', 'wxyz', now())`, org, org[:])
	f.exec(`UPDATE api_keys SET revoked_at = now() WHERE organization_id = $1`, org)
	f.exec(`INSERT INTO license_machines (organization_id, machine_id, boot_id, seq, heartbeat_at) VALUES ($1, 'worker-1', gen_random_uuid(), 1, now() - interval '5 minutes')`, org)
	f.must(f.findLostMachines(f.t.Context()))
	f.exec(`UPDATE license_machines SET heartbeat_at = now() WHERE organization_id = $1`, org)
	f.must(f.findLostMachines(f.t.Context()))
	f.exec(`INSERT INTO invoices (id, organization_id, number, status, currency, subtotal_cents, total_cents, amount_due_cents, lines, period_start, period_end, provider, created_at)
		VALUES (gen_random_uuid(), $1, $2, 'paid', 'usd', 9900, 9900, 0, '[]', now(), now(), 'manual', now())`, org, org.String())
	var reported []SessionEvent
	for _, kind := range Types[7:] {
		reported = append(reported, SessionEvent{ID: uuid.New(), Type: kind, Data: map[string]any{"at": "2026-11-21T10:15:00Z"}})
	}
	f.must(f.Report(f.t.Context(), org, session, new("worker-1"), reported))
}

// recorded returns the recorded events of an organization.
func (f *fixture) recorded(org uuid.UUID) (types []string, data []map[string]any) {
	f.t.Helper()
	var rows []struct {
		Type string `db:"type"`
		Data []byte `db:"data"`
	}
	f.must(f.System.SelectContext(f.t.Context(), &rows, `SELECT type, data FROM events WHERE organization_id = $1 ORDER BY seq`, org))
	for _, r := range rows {
		var fields map[string]any
		f.must(json.Unmarshal(r.Data, &fields))
		types, data = append(types, r.Type), append(data, fields)
	}
	return types, data
}

func TestEvents_AreRecordedForReadersAndEnabledEndpoints(t *testing.T) {
	f := newFixture(t)
	silent, reading := f.tenant(), f.tenant()
	e, _ := f.endpoint("https://hooks.example.com")
	stream, err := f.OpenStream(t.Context(), reading, nil)
	f.must(err)
	stream.Close()
	for _, org := range []uuid.UUID{f.org, silent, reading} {
		f.changes(org)
	}
	if types, _ := f.recorded(silent); types != nil {
		t.Errorf("without endpoint and reader: %v", types)
	}
	types, data := f.recorded(f.org)
	if other, _ := f.recorded(reading); !slices.Equal(types, Types) || !slices.Equal(other, Types) {
		t.Fatalf("got %v and %v, want %v", types, other, Types)
	}
	for i, want := range []map[string]any{
		{"profileName": "Checkout", "machineId": "worker-1", "browserVersion": 156.0, "startedAt": "2026-11-21T10:15:00.500000Z", "resumed": false, "name": nil},
		{"status": "killed", "endReason": "killed", "startedAt": "2026-11-21T10:15:00.500000Z"},
		{"reason": "concurrency_limit", "count": 3.0, "current": 5.0, "limit": 5.0, "sessionId": nil},
		{"name": "fleet", "prefix": "svc_abcd", "lastFour": "wxyz"},
		{"machineId": "worker-1", "draining": false, "hostName": nil},
		{"machineId": "worker-1"},
		{"status": "paid", "totalCents": 9900.0, "amountDueCents": 0.0, "currency": "usd"},
		{"profileName": "Checkout", "machineId": "worker-1", "name": nil, "at": "2026-11-21T10:15:00Z"},
	} {
		for field, value := range want {
			if data[i][field] != value {
				t.Errorf("%s: %s is %v, want %v", types[i], field, data[i][field], value)
			}
		}
	}
	if data[0]["sessionId"] != data[1]["sessionId"] || data[1]["endedAt"] == nil {
		t.Errorf("got %v and %v", data[0], data[1])
	}
	for i, each := range data {
		if link, some := each["hostedUrl"]; some {
			t.Errorf("%s has a link to pay an invoice: %v", types[i], link)
		}
	}
	_, err = f.Update(t.Context(), f.org, e.ID, json.RawMessage(`{"enabled": false}`))
	f.must(err)
	f.startSession(f.org)
	if types, _ := f.recorded(f.org); len(types) != len(Types) {
		t.Errorf("with a disabled endpoint, the events are %v", types)
	}
	f.exec(`DELETE FROM organizations WHERE id = $1`, f.org)
	if types, _ := f.recorded(f.org); types != nil {
		t.Errorf("a deleted organization has %v", types)
	}
}

func TestEvents_OfSessions_AreChangesOfTheState(t *testing.T) {
	f := newFixture(t)
	f.endpoint("https://hooks.example.com")
	id := f.startSession(f.org)
	f.exec(`UPDATE activity_sessions SET connections = 7 WHERE id = $1`, id)
	f.endSession(id)
	f.exec(`UPDATE activity_sessions SET end_reason = 'closed' WHERE id = $1`, id)
	f.exec(`UPDATE activity_sessions SET status = 'running', end_reason = NULL, ended_at = NULL WHERE id = $1`, id)
	types, data := f.recorded(f.org)
	if !slices.Equal(types, []string{"session.started", "session.ended", "session.started"}) || data[2]["resumed"] != true {
		t.Errorf("got %v, the last with %v", types, data[len(data)-1])
	}
}

// TestEvents_RollBackWithTheChange: an event exists exactly if its change does.
func TestEvents_RollBackWithTheChange(t *testing.T) {
	f := newFixture(t)
	f.endpoint("https://hooks.example.com")
	id := f.startSession(f.org)
	tx, err := f.System.BeginTxx(t.Context(), nil)
	f.must(err)
	_, err = tx.ExecContext(t.Context(), `UPDATE activity_sessions SET status = 'exited', ended_at = now() WHERE id = $1`, id)
	f.must(err)
	f.must(tx.Rollback())
	if types, _ := f.recorded(f.org); !slices.Equal(types, []string{"session.started"}) {
		t.Errorf("got %v", types)
	}
}
