package billing

import (
	"math/bits"
	"time"
)

// Period is what was paid for last. All periods begin on the anchor's day of
// the month, or on the last one of a month that is shorter.
type Period struct {
	Anchor time.Time
	Start  time.Time
	End    time.Time
}

// monthsOf is how many months the interval of a plan has.
var monthsOf = map[string]int{"month": 1, "year": 12}

// firstPeriod is the period that begins now.
func firstPeriod(now time.Time, interval string) Period {
	return Period{Anchor: now, Start: now, End: addMonths(now, monthsOf[interval])}
}

// next is the period that follows.
func (p Period) next(interval string) Period {
	step := monthsOf[interval]
	passed := (p.End.Year()-p.Anchor.Year())*12 + int(p.End.Month()-p.Anchor.Month())
	return Period{Anchor: p.Anchor, Start: p.End, End: addMonths(p.Anchor, passed+step)}
}

// prorate is the part of a price that falls on the rest of the period, by the
// second, rounded half up.
func (p Period) prorate(cents int64, now time.Time) int64 {
	total := p.End.Unix() - p.Start.Unix()
	rest := min(max(p.End.Unix()-now.Unix(), 0), total)
	if total <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(cents), uint64(rest))
	low, carry := bits.Add64(low, uint64(total)/2, 0)
	quotient, _ := bits.Div64(high+carry, low, uint64(total))
	return int64(quotient)
}

// addMonths is that many months later, at the same time on the same day of the
// month, or on the last day of a month that is shorter.
func addMonths(t time.Time, months int) time.Time {
	later := t.AddDate(0, months, 0)
	if later.Day() != t.Day() { // it ran over into the month after
		later = later.AddDate(0, 0, -later.Day())
	}
	return later
}
