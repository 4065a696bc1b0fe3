package app

import (
	"log/slog"
	"strings"
	"testing"
)

func TestCheckDescriptors_WarnsWhenLimitIsTooLow(t *testing.T) {
	for _, tc := range []struct {
		sessions int
		limit    uint64
		said     bool
	}{{0, 1024, false}, {1, 1024, true}, {8, 20_000, true}, {8, 1 << 20, false}, {200, 1 << 20, true}} {
		var log strings.Builder
		Config{MaxSessions: tc.sessions}.checkDescriptors(tc.limit, slog.New(slog.NewTextHandler(&log, nil)))
		if said := strings.Contains(log.String(), "open files"); said != tc.said {
			t.Errorf("%d sessions, %d descriptors: said %v, want %v", tc.sessions, tc.limit, said, tc.said)
		}
	}
}
