package pg

import "testing"

func TestStatementName(t *testing.T) {
	for statement, want := range map[string]string{
		"":                                 "",
		"COMMIT":                           "COMMIT",
		"set local svc.organization = 'x'": "SET",
		"SELECT 1":                         "SELECT",
		"SELECT count(*) FROM profiles p, organizations o":                                                            "SELECT profiles",
		"select extract(epoch FROM created_at), a IS DISTINCT FROM b from public.profiles":                            "SELECT public.profiles",
		"SELECT (SELECT name FROM api_keys) FROM license_slots":                                                       "SELECT api_keys",
		"INSERT INTO notes (a) VALUES ('DELETE FROM secret; it''s') -- UPDATE comment\nRETURNING a":                   "INSERT notes",
		"INSERT INTO notes (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET a = 1":                                       "INSERT notes",
		"SELECT id FROM jobs FOR UPDATE SKIP LOCKED":                                                                  "SELECT jobs",
		"SELECT id FROM jobs FOR NO KEY UPDATE OF jobs":                                                               "SELECT jobs",
		"UPDATE jobs SET state = 'x' WHERE id = ANY ($1)":                                                             "UPDATE jobs",
		"DELETE FROM jobs USING others WHERE a = b":                                                                   "DELETE jobs",
		"WITH gone AS (DELETE FROM a RETURNING x), n AS MATERIALIZED (SELECT 1) INSERT INTO b SELECT * FROM gone":     "DELETE a INSERT b",
		"WITH n AS (SELECT unnest($1::uuid[]) AS id), m AS NOT MATERIALIZED (SELECT id FROM n) SELECT * FROM m, real": "WITH",
		"WITH n AS (SELECT id FROM slots) SELECT * FROM n":                                                            "SELECT slots",
		"SELECT 'unterminated": "SELECT",
	} {
		if got := statementName(statement); got != want {
			t.Errorf("%s: %q, want %q", statement, got, want)
		}
	}
}
