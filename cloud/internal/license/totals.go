package license

import "sync/atomic"

// totals count what this replica did since it started.
type totals struct {
	refused, lapsed, omitted, adopted, duplicates, repaired atomic.Int64
}

// Totals are what a replica did since it started.
type Totals struct {
	Refused    int64 // launches and starts without a slot
	Lapsed     int64 // slots given back because nobody was heard of them
	Omitted    int64 // slots given back because a heartbeat left them out
	Adopted    int64 // slots that count again
	Duplicates int64 // machine ids found to be used twice
	Repaired   int64 // counters put right
}

// Totals returns what this replica did since it started.
func (s *Service) Totals() Totals {
	t := &s.totals
	return Totals{
		Refused: t.refused.Load(), Lapsed: t.lapsed.Load(), Omitted: t.omitted.Load(), Adopted: t.adopted.Load(),
		Duplicates: t.duplicates.Load(), Repaired: t.repaired.Load(),
	}
}
