package pg

import (
	"strings"
	"testing"

	"github.com/lib/pq"
)

func TestParseDSN_SeveralHosts(t *testing.T) {
	for _, tc := range []struct {
		dsn           string
		first, second string
		ports         [2]uint16
		attributes    pq.TargetSessionAttrs
	}{
		{"postgres://u:p@h1,h2/db", "h1", "h2", [2]uint16{5432, 5432}, pq.TargetSessionAttrsReadWrite},
		{"postgres://u:p@h1:5433,h2:5434/db?sslmode=disable", "h1", "h2", [2]uint16{5433, 5434}, pq.TargetSessionAttrsReadWrite},
		{"postgresql://u:p@h1:5433,h2/db", "h1", "h2", [2]uint16{5433, 5432}, pq.TargetSessionAttrsReadWrite},
		{"postgres://u:p@h1:5433,h2:5434", "h1", "h2", [2]uint16{5433, 5434}, pq.TargetSessionAttrsReadWrite},
		{"postgres://u:p@h1,h2/db?port=5433,5434&target_session_attrs=any", "h1", "h2", [2]uint16{5433, 5434}, pq.TargetSessionAttrsAny},
		{"host=h1,h2 port=5433,5434 user=u dbname=db", "h1", "h2", [2]uint16{5433, 5434}, pq.TargetSessionAttrsReadWrite},
	} {
		config, err := parseDSN(tc.dsn)
		if err != nil || len(config.Multi) != 1 {
			t.Errorf("%s: %d further hosts, %v", tc.dsn, len(config.Multi), err)
			continue
		}
		second := config.Multi[0]
		if config.Host != tc.first || second.Host != tc.second || config.Port != tc.ports[0] || second.Port != tc.ports[1] ||
			config.TargetSessionAttrs != tc.attributes {
			t.Errorf("%s: %s:%d, %s:%d, %s", tc.dsn, config.Host, config.Port, second.Host, second.Port, config.TargetSessionAttrs)
		}
	}
	config, err := parseDSN("postgres://u:p@h1:5433/db")
	if err != nil || config.Host != "h1" || config.Port != 5433 || config.TargetSessionAttrs != "" {
		t.Errorf("one host: %s:%d, %q, %v", config.Host, config.Port, config.TargetSessionAttrs, err)
	}
}

func TestParseDSN_ErrorsHidePassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:hunter2@h1:x/db", "postgres://u:hunter2@h1:x,h2/db", "postgres://u:hunter2/3@h1/db", "postgres://u:hunter2@%zz/db",
	} {
		_, err := parseDSN(dsn)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
