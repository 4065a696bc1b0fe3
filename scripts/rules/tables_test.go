package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tableOwners lists the package of cloud/internal that writes each table. Other packages
// only read it.
var tableOwners = map[string]string{
	"access_tokens":            "accounts/auth",
	"activity_sessions":        "browsers/activity",
	"api_keys":                 "tenancy/apikey",
	"api_usage":                "tenancy/usage",
	"audit_events":             "platform/audit",
	"auth_attempts":            "accounts/auth",
	"auth_sessions":            "accounts/auth",
	"auth_tokens":              "accounts/auth",
	"chromium_releases":        "browsers/catalog",
	"contact_messages":         "platform/contact",
	"deleted_organizations":    "tenancy/billing",
	"deleted_profile_data":     "browsers/profiledata",
	"event_lost_machines":      "tenancy/webhook",
	"event_readers":            "tenancy/webhook",
	"events":                   "tenancy/webhook", // and triggers
	"idempotency_keys":         "platform/idempotency",
	"invitations":              "tenancy/org",
	"invoices":                 "tenancy/billing",
	"license_events":           "license",
	"license_machine_info":     "license",
	"license_machines":         "license",
	"license_org":              "license",
	"license_queue":            "license",
	"license_slots":            "license",
	"license_superseded_boots": "license",
	"mail_outbox":              "platform/mail",
	"memberships":              "tenancy/org",
	"organizations":            "tenancy/org",
	"payment_events":           "tenancy/billing",
	"plans":                    "", // written by migrations only
	"profile_data":             "browsers/profiledata",
	"profile_data_keys":        "browsers/profiledata",
	"profile_data_versions":    "browsers/profiledata",
	"profiles":                 "browsers/profile",
	"schema_compatibility":     "", // written by migrations only
	"secrets":                  "tenancy/vault",
	"service_accounts":         "accounts/auth",
	"subscription_add_ons":     "tenancy/billing",
	"subscriptions":            "tenancy/billing",
	"user_identities":          "accounts/auth",
	"users":                    "accounts/auth",
	"webhook_deliveries":       "tenancy/webhook",
	"webhook_endpoints":        "tenancy/webhook",
}

// otherWriters lists the exceptions: the packages that write tables of other packages.
var otherWriters = map[string][]string{
	// The first subscription of an organization has the limits of the default plan.
	"tenancy/plan": {"subscriptions"},
	// Expired rows of all tables are deleted by one statement.
	"platform/retention": {
		"access_tokens", "activity_sessions", "audit_events", "contact_messages", "events", "idempotency_keys", "license_events",
		"license_machines", "license_slots", "mail_outbox", "webhook_deliveries",
	},
}

var (
	createdTable = regexp.MustCompile(`CREATE TABLE public\.([a-z_]+)`)
	writtenTable = regexp.MustCompile(`(?:INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE)(?:\s+ONLY)?\s+([a-z_]+)|\brule\{table: +"([a-z_]+)"`)
)

// writers returns the packages below cloud/internal, and the tables that their code
// writes. Tests write any table.
func writers(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	root := filepath.FromSlash("../../cloud/internal")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, filepath.Dir(path))
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range writtenTable.FindAllStringSubmatch(string(code), -1) {
			if table := match[1] + match[2]; !slices.Contains(found[name], table) {
				found[name] = append(found[name], table)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTables_HaveOneWriter(t *testing.T) {
	schema, err := os.ReadFile(filepath.FromSlash("../../db/schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for _, match := range createdTable.FindAllStringSubmatch(string(schema), -1) {
		tables = append(tables, match[1])
		if _, listed := tableOwners[match[1]]; !listed {
			t.Errorf("table %s has no owner: add it to tableOwners", match[1])
		}
	}
	written := writers(t)
	for name, owned := range written {
		for _, table := range owned {
			if slices.Contains(tables, table) && tableOwners[table] != name && !slices.Contains(otherWriters[name], table) {
				t.Errorf("%s writes %s, which belongs to %s: call a method of its owner", name, table, tableOwners[table])
			}
		}
	}
	for table, owner := range tableOwners {
		if !slices.Contains(tables, table) || owner != "" && !slices.Contains(written[owner], table) {
			t.Errorf("tableOwners is out of date: %s does not write %s", owner, table)
		}
	}
	for name, exceptions := range otherWriters {
		for _, table := range exceptions {
			if !slices.Contains(written[name], table) {
				t.Errorf("otherWriters is out of date: %s does not write %s", name, table)
			}
		}
	}
}
