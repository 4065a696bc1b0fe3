package profile

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/settings"
)

// TestRowLevelSecurity_HoldsWithoutWhereClause removes the organization from the list
// query, as a mistake could.
func TestRowLevelSecurity_HoldsWithoutWhereClause(t *testing.T) {
	f := newFixture(t)
	other := f.organization(nil)
	f.create(Draft{Fields: Fields{Name: "ours", BrowserVersion: 156}})
	if _, err := f.svc.Create(t.Context(), other, f.user, Draft{Fields: Fields{Name: "theirs", BrowserVersion: 156}}); err != nil {
		t.Fatal(err)
	}
	where, _ := Filter{}.where(f.org)
	slip := `SELECT name FROM profiles` + strings.Replace(where, "organization_id = $1", "TRUE", 1)
	if !strings.Contains(slip, "TRUE") {
		t.Fatalf("the list does not name the organization: %s", where)
	}
	pool := dbtest.Open(t, f.dsn, pg.Options{Role: pg.AppRole})
	var names, unscoped []string
	err := pg.InOrg(t.Context(), pool, f.org, func(tx *sqlx.Tx) error { return tx.SelectContext(t.Context(), &names, slip) })
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 1 || names[0] != "ours" {
		t.Errorf("without row-level security the list contains %q", names)
	}
	if err := pool.SelectContext(t.Context(), &unscoped, slip); err != nil || len(unscoped) != 0 {
		t.Errorf("without an organization the list contains %q, %v", unscoped, err)
	}
}

// TestRowLevelSecurity_HoldsForConfigs removes the organization from the configuration
// query.
func TestRowLevelSecurity_HoldsForConfigs(t *testing.T) {
	f := newFixture(t)
	ours := f.create(Draft{Fields: Fields{Name: "ours", BrowserVersion: 156}})
	theirs, err := f.svc.Create(t.Context(), f.organization(nil), f.user, Draft{Fields: Fields{Name: "theirs", BrowserVersion: 156}})
	if err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE organizations SET network = jsonb_build_object('maxBytes', CASE WHEN id = $1 THEN 1 ELSE 2 END)`, f.org)
	slip := configsSQL
	for _, condition := range []string{"organization_id = entered.id::uuid", "id = entered.id::uuid"} {
		before := slip
		if slip = strings.Replace(slip, "WHERE "+condition, "WHERE entered.id IS NOT NULL", 1); slip == before {
			t.Fatalf("the query has no condition %s", condition)
		}
	}
	pool := dbtest.Open(t, f.dsn, pg.Options{MaxOpen: 1, Role: pg.AppRole, PreferIndexes: true})
	both := pq.Array([]uuid.UUID{ours.ID, theirs.ID})
	for range 2 {
		var rows []configRow
		if err := pool.SelectContext(t.Context(), &rows, slip, f.org, both); err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1 || rows[0].Name != "ours" || *rows[0].Network.MaxBytes != 1 {
			t.Errorf("without row-level security the list contains %d profiles: %+v", len(rows), rows)
		}
		var all int
		if err := pool.GetContext(t.Context(), &all, `SELECT count(*) FROM profiles`); err != nil || all != 0 {
			t.Errorf("after the query the pool sees %d profiles, %v", all, err)
		}
	}
}

// TestUpdate_StaysWithinOrganization updates a row of another organization, on a pool
// that sees all organizations.
func TestUpdate_StaysWithinOrganization(t *testing.T) {
	f := newFixture(t)
	p := f.create(Draft{Fields: Fields{Name: "ours", BrowserVersion: 156}})
	r, err := find(t.Context(), f.svc.DB, f.org, p.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		org  uuid.UUID
		want string
	}{{f.organization(nil), "ours"}, {f.org, "new"}} {
		r.Name, r.OrganizationID = "new", test.org
		if err := pg.InTx(t.Context(), f.svc.DB, func(tx *sqlx.Tx) error { return r.update(t.Context(), tx) }); err != nil {
			t.Fatal(err)
		}
		if got, err := f.svc.Get(t.Context(), f.org, p.ID); err != nil || got.Name != test.want {
			t.Errorf("got name %q, %v; want %q", got.Name, err, test.want)
		}
	}
}

func TestReencryptSecrets_UsesFirstKey(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"a", "b"} {
		f.create(Draft{Fields: Fields{Name: name, BrowserVersion: 156, Settings: settings.Settings{Proxy: &settings.Proxy{Server: "http://proxy.test:3128", Username: "u"}}},
			ProxyPassword: new("pass-" + name)})
	}
	f.create(Draft{Fields: Fields{Name: "none", BrowserVersion: 156}})
	robot := newRobot(t)
	certified := f.create(withClients(robot.input("https://a.example")))
	older := secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)}
	today := secret.Key{ID: 2, Bytes: bytes.Repeat([]byte{8}, secret.KeySize)}
	both, err := secret.New(today, older)
	if err != nil {
		t.Fatal(err)
	}
	system := dbtest.Open(t, f.dsn, pg.Options{Role: pg.AllRole})
	if n, err := ReencryptSecrets(t.Context(), system, both); err != nil || n != 3 {
		t.Errorf("re-encrypted %d, %v", n, err)
	}
	alone, err := secret.New(today)
	if err != nil {
		t.Fatal(err)
	}
	f.svc.Sealer = alone
	var ids []row
	if err := system.SelectContext(t.Context(), &ids, `SELECT id, name FROM profiles WHERE proxy_secret IS NOT NULL`); err != nil {
		t.Fatal(err)
	}
	for _, r := range ids {
		c, err := f.svc.Config(t.Context(), f.org, r.ID)
		if err != nil || c.ProxyPassword == nil || *c.ProxyPassword != "pass-"+r.Name {
			t.Errorf("%s: %v, %v", r.Name, c.ProxyPassword, err)
		}
	}
	if c, err := f.svc.Config(t.Context(), f.org, certified.ID); err != nil || len(c.ClientKeys) != 1 || c.ClientKeys[0].Key != robot.key {
		t.Errorf("the client certificates: %v", err)
	}
	if n, unreadable, err := CheckCertificates(t.Context(), system, mustBox(t, older)); n != 1 || len(unreadable) != 1 || err != nil {
		t.Errorf("checked %d with the older key: %v, %v", n, unreadable, err)
	}
	if n, err := ReencryptSecrets(t.Context(), system, mustBox(t, older)); err == nil || n != 0 {
		t.Errorf("without the key: %d, %v", n, err)
	}
}

func mustBox(t *testing.T, key secret.Key) *secret.Box {
	t.Helper()
	box, err := secret.New(key)
	if err != nil {
		t.Fatal(err)
	}
	return box
}
