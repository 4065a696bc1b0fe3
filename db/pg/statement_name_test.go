package pg

import "testing"

func TestStatementName(t *testing.T) {
	for statement, want := range map[string]string{
		"":                                 "",
		"COMMIT":                           "COMMIT",
		"set local svc.organization = 'x'": "SET",
		"SELECT 1":                         "SELECT",
		"SELECT count(*) FROM profiles p, organizations o":                      "SELECT profiles",
		"\n\tselect name\n\tfrom public.profiles":                               "SELECT public.profiles",
		"INSERT INTO notes (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET a = 1": "INSERT notes",
		"SELECT id FROM jobs FOR UPDATE SKIP LOCKED":                            "SELECT jobs",
		"SELECT id FROM jobs FOR NO KEY UPDATE OF jobs":                         "SELECT jobs",
		"update jobs j set state = 'x' WHERE id = ANY ($1)":                     "UPDATE jobs",
		"DELETE FROM jobs USING others WHERE a = b":                             "DELETE jobs",
		"WITH a AS (SELECT 1 FROM slots) INSERT INTO b SELECT * FROM a":         "INSERT b",
	} {
		if got := statementName(statement); got != want {
			t.Errorf("%s: %q, want %q", statement, got, want)
		}
	}
}
